"""Removes versions that no pod uses from the claim of a Model, to make room for the next one."""

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from agent.cli.target import HOLDER, WORK_DIRECTORY
from shared.errors import InvalidURI

VERSIONS = ".revisions"  # the directory of all versions but the first, which is at the root of the claim
ROOT = "."
_NOT_OF_A_MODEL = {VERSIONS, WORK_DIRECTORY, HOLDER, "lost+found"}


def remove_old_versions(to: Path, kept: Iterable[str], notify: Callable[[str], None]) -> None:
    """Remove every version except those in `kept` and the one that is being downloaded to `to`.

    Paths that cannot be removed are reported and kept: there may be enough space for the download anyway.

    Args:
        to: The directory of a version, in `VERSIONS` on the claim.
        kept: Directories on the claim, `.` for its root.
        notify: Prints a line.

    Raises:
        InvalidURI: `to` is not the directory of a version.
    """
    if to.parent.name != VERSIONS:
        raise InvalidURI(f"--keep needs --to=CLAIM/{VERSIONS}/VERSION, not {to}")
    for path in _unused(to, {os.path.normpath(path) for path in kept}):
        try:
            _remove(path)
        except OSError as error:
            notify(f"{path} of an earlier version cannot be removed and stays: {error.strerror or error}")
        else:
            notify(f"removed {path}, which belongs to a version that no pod uses")


def _unused(to: Path, kept: set[str]) -> Iterator[Path]:
    claim = to.parent.parent
    if to.parent.is_dir() and not to.parent.is_symlink():
        for path in sorted(to.parent.iterdir()):
            if path.name != to.name and f"{VERSIONS}/{path.name}" not in kept:
                yield path
    if ROOT not in kept:
        yield from (path for path in sorted(claim.iterdir()) if path.name not in _NOT_OF_A_MODEL)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
