"""The documentation says what is there: links, reasons, commands, targets, settings, generated pages."""

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import controller.admission.errors
import rig.errors
import shared.errors
import shared.kube.errors
from agent.settings import Settings as AgentSettings
from controller.settings import Settings as ControllerSettings
from shared.api import reference
from shared.api.kinds import DEFINITIONS, Definition
from shared.api.model_node import EntryState, Phase
from shared.cli import COMMANDS
from shared.errors import LarderError

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *ROOT.glob("charts/*/*.md")])
TREES = (shared.errors, controller.admission.errors, shared.kube.errors, rig.errors)

_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_TARGET = re.compile(r"(?:^|`|\$ )make ([a-z0-9]+)", re.MULTILINE)


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


def anchors(page: Path) -> set[str]:
    """The anchors that a page's headings get where Markdown is shown."""
    titles = _HEADING.findall(_CODE.sub("", text_of(page)))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def reasons() -> Iterator[str]:
    """Every reason that an error of ours can have: the leaves of the trees."""
    for module in TREES:
        kinds = [k for k in vars(module).values() if isinstance(k, type) and issubclass(k, LarderError)]
        yield from (k.__name__ for k in kinds if not k.__subclasses__())


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    broken = []
    for link in _LINK.findall(_CODE.sub("", text_of(page))):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if link.startswith(("https://", "http://", "mailto:")):
            continue
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert not broken


def test_every_page_is_reached_from_the_readme() -> None:
    seen: set[Path] = set()
    todo = [ROOT / "README.md"]
    while todo:
        page = todo.pop()
        seen.add(page)
        paths = (link.partition("#")[0] for link in _LINK.findall(text_of(page)) if "://" not in link)
        todo += [p for path in paths if (p := (page.parent / path).resolve()).suffix == ".md" and p not in seen]
    assert set(PAGES) <= seen


@pytest.mark.parametrize("reason", sorted(set(reasons())))
def test_every_reason_is_explained(reason: str) -> None:
    text = text_of(DOCS / "troubleshooting.md")
    assert f"### {reason}\n" in text or f"`{reason}`" in text


def test_every_phase_and_state_is_explained() -> None:
    text = text_of(DOCS / "concepts.md")
    assert [word for word in (*Phase, *EntryState) if f"`{word}`" not in text] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_its_section(name: str) -> None:
    assert f"\n## larder {name}\n" in text_of(DOCS / "cli.md")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_can_be_called(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        import_module(COMMANDS[name].module).main(["--help"])
    assert f"larder {name}" in capsys.readouterr().out


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_target_that_is_named_exists(page: Path) -> None:
    targets = set(re.findall(r"^([a-z0-9]+):", text_of(ROOT / "Makefile"), re.MULTILINE))
    assert set(_TARGET.findall(text_of(page))) <= targets


def test_every_setting_is_in_the_reference() -> None:
    text = text_of(DOCS / "reference.md")
    variables = [f"LARDER_{name.upper()}" for name in ControllerSettings.model_fields]
    arguments = [f"--{name.replace('_', '-')}" for name in AgentSettings.model_fields]
    assert [name for name in (*variables, *arguments) if f"`{name}`" not in text] == []


def test_the_api_page_is_current() -> None:
    assert text_of(DOCS / "api.md") == reference.page(), "run `make crds`"


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda d: str(d.kind))
def test_the_api_page_has_every_kind(definition: Definition) -> None:
    assert f"\n## {definition.kind}\n" in reference.page()


def test_check_tells_a_page_that_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "api.md"
    assert reference.main(["--check", str(page)]) == 1
    assert "make crds" in capsys.readouterr().err
    assert reference.main([str(page)]) == 0
    assert reference.main(["--check", str(page)]) == 0
