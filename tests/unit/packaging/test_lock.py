"""The locked requirements have hashes, name no index, and contain no library in an ancient version."""

import re
from importlib.metadata import version
from pathlib import Path

import pytest

FILES = sorted((Path(__file__).parents[3] / "requirements").glob("*.txt"))
_PINNED = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==(\S+)", re.MULTILINE)


def pinned(path: Path) -> dict[str, str]:
    return {name.lower(): found for name, found in _PINNED.findall(path.read_text())}


def numbers(text: str) -> tuple[int, int]:
    major, minor = text.split(".")[:2]
    return int(major), int(minor)


def test_each_extra_has_its_lock_file() -> None:
    assert {f.stem for f in FILES} >= {"agent", "controller", "dev"}


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_every_requirement_has_hashes(path: Path) -> None:
    blocks = re.split(r"^(?=[A-Za-z0-9])", path.read_text(), flags=re.MULTILINE)
    requirements = [b for b in blocks if _PINNED.match(b)]
    assert len(requirements) == len(pinned(path)) > 10
    assert [b.splitlines()[0] for b in requirements if "--hash=sha256:" not in b] == []


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_no_index_is_named(path: Path) -> None:
    text = path.read_text()
    assert not re.search(r"--(extra-)?index-url|--find-links|--trusted-host|https?://", text)


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_boto3_is_locked_to_a_recent_version(path: Path) -> None:
    """With an unbounded kubernetes, resolvers silently fall back to boto3 0.0.3."""
    for name in ("boto3", "botocore"):
        found = pinned(path).get(name, "1.40")
        assert numbers(found)[0] == 1
        assert numbers(found) >= (1, 40)


def test_installed_packages_are_the_locked_ones() -> None:
    (path,) = (f for f in FILES if f.stem == "dev")
    for name in ("boto3", "kubernetes", "msgspec", "fastapi"):
        assert version(name) == pinned(path)[name]


def test_all_lock_files_agree_on_versions() -> None:
    seen: dict[str, set[str]] = {}
    for path in FILES:
        for name, found in pinned(path).items():
            seen.setdefault(name, set()).add(found)
    assert {name: versions for name, versions in seen.items() if len(versions) > 1} == {}
