"""Removes our own files from the disk, and leaves all others alone."""

import os
import re
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from agent.store.layout import GONE_PREFIX, TMP_PREFIX, Layout
from agent.store.snapshot import read_snapshot
from agent.store.tree import has_only_directories, remove_tree

_SHA256 = re.compile(r"^[0-9a-f]{64}$")
_SEALED = 0o555


def move_to_trash(path: Path) -> Path:
    """Rename a directory to an ignored name next to it, to be removed later. Raises OSError."""
    trash = path.with_name(f"{GONE_PREFIX}{path.name}-{secrets.token_hex(4)}")
    path.rename(trash)
    return trash


def clear_place(layout: Layout, path: Path) -> Path | None:
    """Clear `path` for a rename; return the new path of what was moved to the trash, if anything.

    An empty directory needs no clearing; a symbolic link is unlinked, never followed.

    Raises:
        FileExistsError: The existing directory is not ours.
        OSError: It could not be renamed.
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
        raise FileExistsError(f"{path} was not made by Larder, which leaves it alone")
    return move_to_trash(path)


def is_ours(layout: Layout, path: Path) -> bool:
    """Return whether the agent made this directory: it has our mark, our owner and modes, or no files at all."""
    if read_snapshot(layout, path):
        return True
    found = path.lstat()
    sealed = found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) == _SEALED
    return sealed or has_only_directories(path)


def clear_model_directory(path: Path) -> None:
    """Make sure that `path` is a directory we can write to.

    One made by a container runtime (owned by root, containing only directories) is moved to the trash.

    Raises:
        PermissionError: It belongs to someone else and contains files.
        OSError: It could not be renamed.
    """
    with suppress(FileNotFoundError):
        if not stat.S_ISDIR(path.lstat().st_mode):
            path.unlink()
        elif not os.access(path, os.W_OK | os.X_OK):
            if not has_only_directories(path):
                raise PermissionError(f"{path} is not writable")
            move_to_trash(path)
    path.mkdir(0o755, exist_ok=True)


def leftovers(layout: Layout) -> Iterator[Path]:
    """Yield the leftovers of interrupted commits and removals."""
    for directory in (layout.models, *_directories(layout.models)):
        with suppress(PermissionError):  # only root may read it, so it is not ours
            yield from [path for path in directory.iterdir() if path.name.startswith((TMP_PREFIX, GONE_PREFIX))]


def remove_blob(layout: Layout, sha256: str) -> int:
    """Remove a blob unless a snapshot or unfinished download links it; return the bytes freed. Raises OSError."""
    return _removed_bytes(layout, sha256) or 0


def _removed_bytes(layout: Layout, sha256: str) -> int | None:
    with suppress(FileNotFoundError):
        found = layout.blob(sha256).lstat()
        if stat.S_ISREG(found.st_mode) and found.st_nlink == 1:
            layout.blob(sha256).unlink()
            return found.st_size
    return None


def remove_blobs(layout: Layout, digests: Iterable[str]) -> int:
    """Remove those blobs that nothing links and return how many. Raises OSError."""
    return sum(_removed_bytes(layout, sha256) is not None for sha256 in digests)


def blob_digests(layout: Layout) -> list[str]:
    """Return the digests of all blobs; none if their directory was removed. Raises OSError."""
    with suppress(FileNotFoundError):
        return [path.name for path in layout.blobs.iterdir() if _SHA256.match(path.name)]
    return []


def try_remove(path: Path) -> None:
    """Remove a directory as far as permissions allow; files owned by root stay until the next start."""
    with suppress(PermissionError):
        remove_tree(path)


def _directories(parent: Path) -> list[Path]:
    with os.scandir(parent) as entries:
        return [parent / e.name for e in entries if e.is_dir(follow_symlinks=False)]
