"""What is taken off the disk, and what is left alone."""

import os
import re
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from agent.store.layout import GONE_PREFIX, TMP_PREFIX, Layout
from agent.store.snapshot import read_snapshot
from agent.store.tree import is_hollow, remove_tree

_SHA256 = re.compile(r"^[0-9a-f]{64}$")
_SEALED = 0o555


def set_aside(path: Path) -> Path:
    """Rename a directory to a name that nobody reads, beside it. Raises OSError."""
    aside = path.with_name(f"{GONE_PREFIX}{path.name}-{secrets.token_hex(4)}")
    path.rename(aside)
    return aside


def clear_place(layout: Layout, path: Path) -> Path | None:
    """Make room for a rename to `path`: return what was set aside for it. FileExistsError: it is not ours; OSError.

    An empty directory needs no clearing; a symbolic link is unlinked, never followed.
    """
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    if not stat.S_ISDIR(found.st_mode):
        path.unlink()
        return None
    if not any(path.iterdir()):
        return None
    if not is_ours(layout, path):
        raise FileExistsError(f"{path} was not made by Larder and is left alone")
    return set_aside(path)


def is_ours(layout: Layout, path: Path) -> bool:
    """Tell whether we made this directory: it has our mark, or our owner and modes, or no file at all."""
    if read_snapshot(layout, path):
        return True
    found = path.lstat()
    sealed = found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) == _SEALED
    return sealed or is_hollow(path)


def clear_model_directory(path: Path) -> None:
    """See that `path` is a directory that we can write in. PermissionError: it is another's and has files; OSError.

    One that a container runtime made (root's, nothing but directories in it) is set aside.
    """
    with suppress(FileNotFoundError):
        if not stat.S_ISDIR(path.lstat().st_mode):
            path.unlink()
        elif not os.access(path, os.W_OK | os.X_OK):
            if not is_hollow(path):
                raise PermissionError(f"{path} is not writable")
            set_aside(path)
    path.mkdir(0o755, exist_ok=True)


def leftovers(layout: Layout) -> Iterator[Path]:
    """Yield what a commit or a removal that was cut off left behind."""
    for directory in (layout.models, *_directories(layout.models)):
        yield from (path for path in directory.iterdir() if path.name.startswith((TMP_PREFIX, GONE_PREFIX)))


def remove_blob(layout: Layout, sha256: str) -> int:
    """Remove a blob that no snapshot and no unfinished download links; returns its bytes, 0 if it stays. OSError."""
    return _removed_bytes(layout, sha256) or 0


def _removed_bytes(layout: Layout, sha256: str) -> int | None:
    with suppress(FileNotFoundError):
        found = layout.blob(sha256).lstat()
        if stat.S_ISREG(found.st_mode) and found.st_nlink == 1:
            layout.blob(sha256).unlink()
            return found.st_size
    return None


def remove_blobs(layout: Layout, digests: Iterable[str]) -> int:
    """Remove those of the blobs that nothing links; returns how many. Raises OSError."""
    return sum(_removed_bytes(layout, sha256) is not None for sha256 in digests)


def blob_digests(layout: Layout) -> list[str]:
    """Return the digests of all blobs."""
    return [path.name for path in layout.blobs.iterdir() if _SHA256.match(path.name)]


def remove_litter(path: Path) -> None:
    """Remove what is set aside, as far as its owner lets us: what is root's stays until the next start."""
    with suppress(PermissionError):
        remove_tree(path)


def _directories(parent: Path) -> list[Path]:
    with os.scandir(parent) as entries:
        return [parent / e.name for e in entries if e.is_dir(follow_symlinks=False)]
