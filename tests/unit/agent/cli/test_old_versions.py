import os
from pathlib import Path

import pytest

from agent.cli.old_versions import remove_old_versions
from shared.errors import InvalidURI


@pytest.fixture
def claim(tmp_path: Path) -> Path:
    """A claim with the first version at its root, three later ones, and the directory of a file system."""
    for name in ("config.json", "sub/weights", ".revisions/a/w", ".revisions/b/w", ".revisions/c/w", "lost+found/x"):
        file = tmp_path / "claim" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x")
    return tmp_path / "claim"


def files(claim: Path) -> set[str]:
    return {str(path.relative_to(claim)) for path in claim.rglob("*") if not path.is_dir()}


@pytest.mark.parametrize(
    ("kept", "left"),
    [
        ([".revisions/a"], {".revisions/a/w", ".revisions/c/w"}),
        (["."], {"config.json", "sub/weights", ".revisions/c/w"}),
        ([".", ".revisions/b/"], {"config.json", "sub/weights", ".revisions/b/w", ".revisions/c/w"}),
    ],
)
def test_only_the_downloaded_and_the_named_versions_are_kept(claim: Path, kept: list[str], left: set[str]) -> None:
    lines: list[str] = []
    remove_old_versions(claim / ".revisions" / "c", kept, lines.append)
    assert files(claim) == left | {"lost+found/x"}
    assert lines
    assert all("no pod uses" in line for line in lines)


def test_links_are_removed_and_never_followed(claim: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    (claim / "link").symlink_to(outside)
    (claim / ".revisions" / "d").symlink_to(outside)
    lines: list[str] = []
    remove_old_versions(claim / ".revisions" / "c", [".revisions/c"], lines.append)
    assert (outside / "kept").exists()
    assert not (claim / "link").is_symlink()
    assert not (claim / ".revisions" / "d").is_symlink()


def test_files_that_cannot_be_removed_are_reported_and_kept(claim: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, **_: object) -> None:
        raise PermissionError(1, "Operation not permitted", os.fspath(path))

    monkeypatch.setattr("shutil.rmtree", refuse)
    lines: list[str] = []
    remove_old_versions(claim / ".revisions" / "c", ["."], lines.append)
    assert ".revisions/a/w" in files(claim)
    assert any("cannot be removed and stays: Operation not permitted" in line for line in lines)


def test_a_target_that_is_not_a_version_is_refused(claim: Path) -> None:
    with pytest.raises(InvalidURI, match="--keep needs"):
        remove_old_versions(claim, ["."], print)
    assert len(files(claim)) == 6
