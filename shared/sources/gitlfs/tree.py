"""The files of a commit: plain ones, and pointers of Git LFS."""

import re
from collections.abc import Iterator, Mapping
from operator import itemgetter

from shared.errors import UnsafePath
from shared.manifest import File
from shared.sources.gitlfs.pack import BadPack, GitObject
from shared.sources.listing_limits import bounded_names

GIT_DIGEST, LFS_DIGEST = "git-sha1:", "sha256:"
_ID_BYTES = 20
_LONGEST_POINTER_BYTES = 1024
_LONGEST_PATH = 4096
_TREE, _LINK, _SUBMODULE = b"40000", b"120000", b"160000"
_FILES = (b"100644", b"100755", b"100664")
_POINTER = re.compile(
    rb"version https://(?:git-lfs\.github\.com|hawser\.github\.com)/spec/v1\n(?:ext-[^\n]*\n)*"
    rb"oid sha256:([0-9a-f]{64})\nsize ([0-9]{1,18})\n"
)


def list_files(objects: Mapping[str, GitObject], commit: str, what: str) -> list[File]:
    """Return the files of a commit.

    Args:
        objects: The objects of a fetch.
        commit: The id of the commit.
        what: The repository, for messages.

    Raises:
        BadPack: An object is missing or malformed.
        UnsafePath: A file is a symbolic link, or its name is not valid.
        TooManyFiles: There are more than any manifest can hold, counting directories too.
    """
    entries = _entries(objects, _tree_of(_found(objects, commit, b"commit")))
    return [file for _, file in bounded_names(entries, itemgetter(0), what) if file is not None]


def _entries(objects: Mapping[str, GitObject], root: str) -> Iterator[tuple[str, File | None]]:
    """Yield the path of each file and directory, with the file.

    Directories count, too: a hundred thousand long paths fit in a pack of some kilobytes.
    """
    waiting = [("", root)]
    while waiting:
        above, tree = waiting.pop()
        for mode, name, found in _parse_tree(_found(objects, tree, b"tree")):
            path = f"{above}{name}"
            if len(path) > _LONGEST_PATH:
                raise UnsafePath(f"the path {path[:80]!r}... is too long; rename its directories")
            if mode == _TREE:
                waiting.append((f"{path}/", found))
                yield path, None
            elif mode in _FILES:
                yield path, _file(path, found, _found(objects, found, b"blob"))
            elif mode == _SUBMODULE:
                yield path, None  # as without --recurse-submodules
            else:
                kind = "a symbolic link" if mode == _LINK else f"of the unknown mode {mode[:10]!r}"
                raise UnsafePath(f"{path[:80]!r} is {kind}; replace it with the file itself")


def _file(path: str, blob_id: str, blob: GitObject) -> File:
    pointer = _POINTER.fullmatch(blob.content) if len(blob.content) <= _LONGEST_POINTER_BYTES else None
    if pointer:
        return File(path, int(pointer[2]), LFS_DIGEST + pointer[1].decode())
    return File(path, len(blob.content), GIT_DIGEST + blob_id)


def _found(objects: Mapping[str, GitObject], wanted: str, kind: bytes) -> GitObject:
    found = objects.get(wanted)
    if found is None or found.kind != kind:
        raise BadPack(f"the {kind.decode()} {wanted} is missing")
    return found


def _tree_of(commit: GitObject) -> str:
    line = commit.content.partition(b"\n")[0]
    if not re.fullmatch(rb"tree [0-9a-f]{40}", line):
        raise BadPack("a commit without a tree")
    return line[5:].decode()


def _parse_tree(tree: GitObject) -> Iterator[tuple[bytes, str, str]]:
    """Yield mode, name and id of each entry."""
    content, at = tree.content, 0
    while at < len(content):
        space, end = content.find(b" ", at, at + 16), content.find(b"\0", at)
        if space < 0 or end < space or end + 1 + _ID_BYTES > len(content):
            raise BadPack("a malformed tree")
        try:
            name = content[space + 1 : end].decode()
        except UnicodeDecodeError:
            raise UnsafePath(f"the file name {content[space + 1 : end][:80]!r} is not UTF-8; rename it") from None
        if not name or "/" in name:
            raise UnsafePath(f"the file name {name[:80]!r} is not valid; correct the repository")
        yield content[at:space], name, content[end + 1 : end + 1 + _ID_BYTES].hex()
        at = end + 1 + _ID_BYTES
