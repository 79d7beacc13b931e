"""Which file names may be placed below a target."""

import pytest

from agent.cli.target import check_manifest
from shared.errors import UnsafePath
from shared.manifest import File, Manifest


def listed(*paths: str) -> Manifest:
    """Return a list of files that no constructor has checked, as a plugin's source may return it."""
    return Manifest("plugin://m", "", tuple(File(path, 1, "") for path in paths))


@pytest.mark.parametrize("path", ["../outside", "/etc/passwd", "a/../../b", "", ".larder/x", ".larder-holder"])
def test_names_that_leave_the_target_or_are_reserved_are_refused(path: str) -> None:
    with pytest.raises(UnsafePath):
        check_manifest(listed("config.json", path))


def test_ordinary_names_are_accepted() -> None:
    check_manifest(listed("config.json", "a/b.safetensors", ".larder.txt"))
