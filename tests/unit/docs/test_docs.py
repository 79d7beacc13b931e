"""The documentation matches the code: links, reasons, commands, targets, settings, generated pages."""

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

import controller.admission.errors
import rig.errors
import shared.errors
import shared.kube.errors
from agent.settings import AgentSettings
from controller.cli.why.subject import parse_subject
from controller.settings import ControllerSettings
from shared.api import reference
from shared.api.kinds import DEFINITIONS, Definition
from shared.api.model_node import EntryState, Phase
from shared.cli import COMMANDS
from shared.errors import LarderError
from shared.sources.schemes import SERVED_SCHEMES
from shared.uri.model_uri import KNOWN_SCHEMES

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *ROOT.glob("charts/*/*.md")])
TREES = (shared.errors, controller.admission.errors, shared.kube.errors, rig.errors)

_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_SHELL = re.compile(r"(?:^|`|\$ )larder ([a-z]+)", re.MULTILINE)
_GROUPS = {definition.group for definition in DEFINITIONS}
_VALUE = re.compile(r"`([a-z][A-Za-z]+(?:\.[A-Za-z]+)+)(?::[^`]*)?`|--set ([A-Za-z.]+)=")
_ALERT = re.compile(r"- alert: (\w+)\n(?:.*\n)*?\s+labels: \{severity: (\w+)\}")
_OPTION = re.compile(r"(?<![\w-])(--?[a-z][a-z-]*|-[A-Z])(?![\w-])")
_EVERYWHERE = {"--kubeconfig", "--context"}  # options of every command about a cluster, which are documented once
_TABLE = re.compile(r"^ *\|.*\n(?:(?! *$| *<!--).*\n)*", re.MULTILINE)  # to the next block, as Markdown reads it
_BAR = re.compile(r"(?<!\\)\|")
_TARGET = re.compile(r"(?:^|`|\$ )make ([a-z0-9]+)", re.MULTILINE)


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


def anchors(page: Path) -> set[str]:
    """The anchors that the headings of a page get when Markdown is rendered."""
    titles = _HEADING.findall(_CODE.sub("", text_of(page)))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def reasons() -> Iterator[str]:
    """Every reason that an error of ours can have: the leaves of the trees."""
    for module in TREES:
        kinds = [k for k in vars(module).values() if isinstance(k, type) and issubclass(k, LarderError)]
        yield from (k.__name__ for k in kinds if not k.__subclasses__())


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_relative_link_has_a_target(page: Path) -> None:
    broken = []
    for link in _LINK.findall(_CODE.sub("", text_of(page))):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if link.startswith(("https://", "http://", "mailto:")):
            continue
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert not broken


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_row_of_a_table_has_the_cells_of_its_header(page: Path) -> None:
    tables = [table.splitlines() for table in _TABLE.findall(_CODE.sub("", text_of(page)))]
    assert [row for first, *rows in tables for row in rows if len(_BAR.findall(row)) != len(_BAR.findall(first))] == []


def test_every_page_is_reachable_from_the_readme() -> None:
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


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_command_that_is_named_exists(page: Path) -> None:
    assert set(_SHELL.findall(text_of(page))) <= {*COMMANDS, "COMMAND"}


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_examples_of_larder_why_name_known_kinds(page: Path) -> None:
    for asked in re.findall(r"larder why`? `?([a-z]+/[A-Za-z<>-]+)", text_of(page)):
        assert parse_subject(asked).name


@pytest.mark.parametrize("name", COMMANDS)
def test_the_section_of_a_command_has_exactly_its_options(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        import_module(COMMANDS[name].module).main(["--help"])
    usage = capsys.readouterr().out.partition("\n\n")[0]
    there = set(_OPTION.findall(usage)) - {"-h"} - _EVERYWHERE
    section = text_of(DOCS / "cli.md").partition(f"\n## larder {name}\n")[2].partition("\n## ")[0]
    written = set(_OPTION.findall(section.partition("```\n")[2].partition("```")[0])) - _EVERYWHERE
    assert written == there


def test_the_help_of_fetch_names_every_scheme(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        import_module(COMMANDS["fetch"].module).main(["--help"])
    reported = capsys.readouterr().out
    assert [scheme for scheme in KNOWN_SCHEMES if f"{scheme}://" not in reported] == ["pvc"]


def test_the_metrics_page_names_every_source() -> None:
    (line,) = (line for line in text_of(DOCS / "metrics.md").splitlines() if line.startswith("`source` is"))
    assert [scheme for scheme in SERVED_SCHEMES if f"`{scheme}`" not in line] == []


def test_the_crd_chart_readme_names_every_kind() -> None:
    lines = text_of(ROOT / "charts" / "larder-crds" / "README.md").replace("\\", "").splitlines()
    rows = {d.group: line for d in DEFINITIONS for line in lines if line.startswith(f"| `groups.{d.group}`")}
    assert [d.kind for d in DEFINITIONS if d.kind not in rows[d.group]] == []


def chart_values() -> set[str]:
    """Every value of the charts, and every mapping above one, as dotted paths."""

    def below(value: object, path: str) -> Iterator[str]:
        yield path
        if isinstance(value, dict):
            for key, inner in value.items():
                yield from below(inner, f"{path}.{key}" if path else key)

    return {
        v for file in ROOT.glob("charts/*/values.yaml") for v in below(yaml.load(text_of(file), yaml.CSafeLoader), "")
    }


@pytest.mark.parametrize("page", [p for p in PAGES if p.parent in (ROOT, DOCS)], ids=named)
def test_every_chart_value_that_is_named_exists(page: Path) -> None:
    known = chart_values()
    roots = {value.partition(".")[0] for value in known}
    text = text_of(page)
    asked = {value for pair in _VALUE.findall(text) for value in pair if value.partition(".")[0] in roots}
    assert asked - _GROUPS <= known


def test_the_first_values_in_the_install_guide_exist_in_the_chart() -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", text_of(DOCS / "install.md"), re.DOTALL)
    values = yaml.safe_load(blocks[0])
    assert set(paths_of(values)) <= chart_values()


def paths_of(values: dict[str, Any], above: str = "") -> Iterator[str]:
    """The values that a file sets; keys below `nodeSelector` and similar values are the user's."""
    for key, value in values.items():
        path = f"{above}{key}"
        yield path
        if isinstance(value, dict) and key != "nodeSelector":
            yield from paths_of(value, f"{path}.")


def alerts() -> dict[str, str]:
    """The severity of each alert of the chart."""
    text = text_of(ROOT / "charts" / "larder" / "templates" / "monitoring" / "rules.yaml")
    found = dict(_ALERT.findall(text))
    assert len(found) == text.count("- alert:")
    return found


def test_every_alert_has_its_section_and_no_section_is_left_over() -> None:
    text = text_of(DOCS / "operations.md").partition("\n## Alerts\n")[2].partition("\n## ")[0]
    sections = dict(re.findall(r"^### (\w+)\n\n\*(\w+)\.\*", text, re.MULTILINE))
    assert sections == alerts()
    assert text.count("\n*Look:*") == text.count("\n*Do:*") == len(sections)


def test_reasons_of_larder_why_are_explained() -> None:
    text = text_of(DOCS / "troubleshooting.md")
    code = "".join(text_of(p) for p in (ROOT / "controller" / "cli" / "why").glob("*.py"))
    words = set(re.findall(r"\b(?:stop|wait|tell)\(\s*[^,]+?,\s*\"(\w+)\"", code)) - {"NotFound"}
    assert len(words) > 20
    assert {w for w in words if f"`{w}`" not in text and f"### {w}\n" not in text} == set()


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


def test_check_reports_a_page_that_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "api.md"
    assert reference.main(["--check", str(page)]) == 1
    assert "make crds" in capsys.readouterr().err
    assert reference.main([str(page)]) == 0
    assert reference.main(["--check", str(page)]) == 0
