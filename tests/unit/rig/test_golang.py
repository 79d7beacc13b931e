from pathlib import Path

import pytest

from rig.errors import SetupFailed
from rig.golang import Found, build_env, choose, find_on_path, parse_version

PINNED = Found(Path("/cache/go"), "go1.26.6")


def _install_pinned() -> Found:
    return PINNED


def _refuse() -> Found:
    raise SetupFailed("must not be asked")


def _go(folder: Path, script: str) -> None:
    program = folder / "go"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("go1.26.8", (1, 26)),
        ("go version go1.9 linux/amd64", (1, 9)),
        ("go1.27rc1", (1, 27)),
        ("go2.0", (2, 0)),
        ("devel +abcdef", None),
        ("", None),
    ],
)
def test_versions_of_go_are_parsed(text: str, expected: tuple[int, int] | None) -> None:
    assert parse_version(text) == expected


@pytest.mark.parametrize("version", ["go1.26.0", "go1.27.3", "go2.0"])
def test_a_go_on_path_that_is_new_enough_is_taken(version: str) -> None:
    found = Found(Path("/usr/bin/go"), version)
    assert choose(found, _refuse) == found


@pytest.mark.parametrize("found", [None, Found(Path("/usr/bin/go"), "go1.19.8"), Found(Path("/usr/bin/go"), "odd")])
def test_the_pinned_go_is_installed_if_none_on_the_path_is_new_enough(found: Found | None) -> None:
    assert choose(found, _install_pinned) == PINNED


def test_the_go_on_path_reports_its_version_without_fetching_a_toolchain(tmp_path: Path) -> None:
    _go(tmp_path, 'echo "go1.26.1 $GOTOOLCHAIN"')
    assert find_on_path({"PATH": str(tmp_path)}) == Found(tmp_path / "go", "go1.26.1 local")


def test_a_go_that_does_not_run_is_ignored(tmp_path: Path) -> None:
    _go(tmp_path, "exit 1")
    assert find_on_path({"PATH": str(tmp_path)}) is None
    assert find_on_path({"PATH": str(tmp_path / "nowhere")}) is None


def test_a_build_keeps_user_settings_that_do_not_change_its_result(tmp_path: Path) -> None:
    env = build_env({"GOFLAGS": "-p=1", "GOPROXY": "https://proxy", "GOARCH": "arm64", "CGO_ENABLED": "1"}, tmp_path)
    assert (env["GOFLAGS"], env["GOPROXY"], env["GOTMPDIR"]) == ("-p=1", "https://proxy", str(tmp_path))
    assert (env["GOTOOLCHAIN"], env["CGO_ENABLED"]) == ("local", "0")
    assert "GOARCH" not in env
