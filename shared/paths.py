"""Checks which file names of a source may be written below a directory."""

from collections.abc import Container, Sequence
from itertools import pairwise

from shared.errors import UnsafePath

COMPLETED = ".completed"
_LONGEST_NAME_BYTES = 255
_LONGEST_PATH_BYTES = 1024
_MAX_DIRECTORIES = 20_000  # as in an archive; each costs an inode and a block on every node


def check_paths(paths: Sequence[str], names: Container[str] = ()) -> None:
    """Raise UnsafePath, naming the file, unless all paths can coexist below one directory.

    Paths in `names` are only names and are not written, so others may be below them. The others are sorted with `/`
    below every other character. Whatever is below a path then comes right after it (`a`, `a/b`, `a.b`), so it is
    enough to compare neighbours: for clashes, and for the directories that a path adds.
    """
    for path in paths:
        check_path(path)
    known = set(paths)
    if len(known) < len(paths):
        twice = next(path for path, after in pairwise(sorted(paths)) if path == after)
        raise UnsafePath(f"file name {twice!r} is listed twice")
    directories, before = 0, [""]
    for path in sorted((path for path in paths if path not in names), key=lambda path: path.replace("/", "\0")):
        parts = path.split("/")
        shared = next((n for n, pair in enumerate(zip(before, parts, strict=False)) if pair[0] != pair[1]), len(before))
        if shared == len(before):
            parent = "/".join(before)
            raise UnsafePath(f"{parent!r} is a file, but {path!r} uses it as a directory; rename one at the source")
        directories += len(parts) - 1 - shared
        if directories > _MAX_DIRECTORIES:
            raise UnsafePath(f"the files are in more than {_MAX_DIRECTORIES} directories; select fewer files")
        before = parts


def check_path(path: str) -> None:
    """Raise UnsafePath unless the file may be written below a directory."""
    if why := _why_unsafe(path):
        raise UnsafePath(f"file name {path!r} {why}; rename it at the source or leave it out")


def _why_unsafe(path: str) -> str:
    parts = path.split("/")
    if path.startswith("/") or "\0" in path or "\\" in path:
        return "is absolute or contains a NUL or a backslash"
    if any(part in ("", ".", "..") for part in parts):
        return "would be outside its directory"
    if parts[0] == COMPLETED:
        return "is reserved for Larder"
    try:
        encoded = [part.encode() for part in parts]
    except UnicodeEncodeError:
        return "is not valid Unicode"
    if any(len(part) > _LONGEST_NAME_BYTES for part in encoded) or len(path.encode()) > _LONGEST_PATH_BYTES:
        return "is too long"
    return ""
