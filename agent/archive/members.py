"""Decides which members of an archive become files before anything is written."""

import posixpath
import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto

from agent.archive.name_tree import Name, NameTree
from shared.errors import TooManyFiles, UnsafePath
from shared.paths import check_path

_SET_ID_BITS = 0o6000
_MAX_BYTES = 2**62  # the API server's integers end soon after
_MAX_LINKS = 40
_LONGEST_TARGET = 1024  # the same as for names
_HERE = re.compile(r"^(?:\./+)+|^\.$")


class MemberType(Enum):
    """The type of a member; `OTHER` is everything else, such as devices and pipes."""

    FILE = auto()
    DIRECTORY = auto()
    SYMBOLIC_LINK = auto()
    HARD_LINK = auto()
    OTHER = auto()


@dataclass(frozen=True, slots=True)
class ArchiveEntry:
    """A member as listed in the archive: name, size in bytes, permission bits, and link target."""

    name: str
    type: MemberType
    size: int = 0
    mode: int = 0
    target: str = ""


@dataclass(frozen=True, slots=True)
class Member:
    """A file to create: its path, its size in bytes, and the path whose bytes it has (its own, unless it is a link)."""

    path: str
    size: int
    content_path: str


@dataclass(frozen=True, slots=True)
class UnpackLimits:
    """The limits on bytes written and on files and directories, whether listed or implied."""

    bytes: int
    members: int = 20_000


@dataclass(slots=True)
class ArchiveTotals:
    """Totals of the model's archives listed so far; the limits apply to all of them together."""

    bytes: int = 0
    members: int = 0

    def counter(self, limits: UnpackLimits, subject: str = "") -> Callable[[], None]:
        """Return a function that counts one member and raises TooManyFiles beyond the limit."""
        subject = subject or ("archives have" if self.members else "archive has")

        def count() -> None:
            if self.members >= limits.members:
                raise TooManyFiles(
                    f"the {subject} more than {limits.members} members, counting every directory above a file; create "
                    "one with fewer files"
                )
            self.members += 1

        return count


class Oversize(Exception):
    """The archives hold more bytes than may be written: `size_bytes`, or more if reading stopped there."""

    def __init__(self, size_bytes: int) -> None:
        super().__init__(f"{size_bytes} bytes or more")
        self.size_bytes = size_bytes


def plain_name(name: str) -> str:
    """Return a name without a leading `./`; `.` alone is the archive's top, which is ""."""
    return _HERE.sub("", name)


def decide_members(
    entries: Iterable[ArchiveEntry], limits: UnpackLimits, totals: ArchiveTotals | None = None
) -> tuple[Member, ...]:
    """Return the files, sorted by path; a single unsafe member fails the whole archive.

    A link within the archive becomes another name of its target file. Entries are read one at a time, and only as far
    as the limits allow.

    Args:
        entries: The archive's members.
        limits: Bounds that hold for all archives in the totals together.
        totals: The totals of the model's other archives; this archive is added to them.

    Raises:
        UnsafePath: A member is unsafe.
        TooManyFiles: There are too many members.
        Oversize: There are too many bytes.
    """
    sizes: dict[str, int] = {}
    links: dict[str, str] = {}
    totals = totals or ArchiveTotals()
    names, listed = NameTree(totals.counter(limits)), ArchiveTotals().counter(limits)
    for entry in entries:
        listed()  # a directory may be listed many times
        path = _path_of(entry)
        _check_type(entry)
        if entry.type is not MemberType.DIRECTORY or path not in ("", "."):
            _add(names, path, is_file=entry.type is not MemberType.DIRECTORY)
        if entry.type is MemberType.DIRECTORY:
            continue
        if entry.type is MemberType.FILE:
            sizes[path] = entry.size
            totals.bytes += entry.size
        else:
            links[path] = _target_of(entry, path)
        if totals.bytes > _MAX_BYTES:
            raise UnsafePath(f"the archive declares more bytes, up to {path!r}, than any disk can hold; recreate it")
        if totals.bytes > limits.bytes:
            raise Oversize(totals.bytes)
    own = [Member(path, size, path) for path, size in sizes.items()]
    aliases = [_alias(path, links, sizes) for path in links]
    return tuple(sorted((*own, *aliases), key=lambda member: member.path))


def _path_of(entry: ArchiveEntry) -> str:
    """Return the name without its meaningless parts: a leading `./`, and a trailing `/` of a directory."""
    name = plain_name(entry.name)
    return name.rstrip("/").removesuffix("/.") if entry.type is MemberType.DIRECTORY else name


def _check_type(entry: ArchiveEntry) -> None:
    if entry.size < 0:
        raise UnsafePath(f"the archive declares a size of {entry.size} for {entry.name!r}; recreate it")
    if entry.type is MemberType.OTHER:
        raise UnsafePath(
            f"the archive contains {entry.name!r}, which is neither a file, a directory nor a link; remove it from "
            "the archive"
        )
    if entry.type is not MemberType.DIRECTORY and entry.mode & _SET_ID_BITS:
        raise UnsafePath(
            f"the archive contains {entry.name!r} with the setuid or setgid bit; recreate it without that bit"
        )


def _target_of(entry: ArchiveEntry, path: str) -> str:
    """Return the target path of a link, from the archive's top; symbolic links are relative to their own directory."""
    if len(entry.target) > _LONGEST_TARGET:
        raise UnsafePath(f"the archive contains the link {path!r} whose target is too long; remove it from the archive")
    beside = posixpath.dirname(path) if entry.type is MemberType.SYMBOLIC_LINK else ""
    target = posixpath.normpath(posixpath.join(beside, entry.target)) if entry.target else ".."
    if target.startswith(("/", "../")) or target == ".." or "\0" in target:
        raise UnsafePath(
            f"the archive contains the link {path!r} to {entry.target!r}, which points outside it; remove it from "
            "the archive"
        )
    return target


def _add(names: NameTree, path: str, *, is_file: bool) -> None:
    """Add a name of an archive. Raises UnsafePath if it clashes with another, also when case is ignored."""
    check_path(path)
    for known, new in names.add(path, is_file=is_file):
        if known.path != new.path:
            raise UnsafePath(
                f"the archive contains both {known.path!r} and {new.path!r}, which some file systems treat as the "
                "same; rename one"
            )
        if known.is_file and new.is_file:
            raise UnsafePath(f"the archive contains {new.path!r} twice; recreate it")
        raise UnsafePath(f"the archive contains {new.path!r} as a file and as a directory; rename one")


def count_names(paths: Iterable[str], limits: UnpackLimits, totals: ArchiveTotals) -> None:
    """Add the files of an archive unpacked earlier to the totals, as if it were listed now."""
    names = NameTree(totals.counter(limits))
    for path in paths:
        deque(names.add(path), maxlen=0)


def check_together(paths_by_origin: Mapping[str, Iterable[str]], limits: UnpackLimits) -> None:
    """Raise UnsafePath, naming both, if a file of one archive clashes with another's.

    `paths_by_origin` has the paths of each archive's files by its name; those of "" are the model's other files. Raises
    TooManyFiles if all of them together, directories included, exceed `limits.members`.
    """
    names = NameTree(ArchiveTotals().counter(limits, "model has"))
    for origin, paths in paths_by_origin.items():
        for path in paths:
            for known, new in names.add(path, origin):
                if known.origin != origin:
                    raise UnsafePath(_clash(known, new))


def _clash(one: Name, other: Name) -> str:
    both = f"the model has {_describe(one)} and {_describe(other)}"
    if one.path != other.path:
        return f"{both}, which some file systems treat as the same; rename one"
    return f"{both}, which cannot both exist; leave one out"


def _describe(name: Name) -> str:
    where = f"in {name.origin!r}" if name.origin else "outside the archives"
    return f"the {'file' if name.is_file else 'directory'} {name.path!r} {where}"


def _alias(path: str, links: Mapping[str, str], sizes: Mapping[str, int]) -> Member:
    target = path
    for _ in range(_MAX_LINKS):
        target = links[target]
        if target in sizes:
            return Member(path, sizes[target], target)
        if target not in links:
            break
    raise UnsafePath(
        f"the archive contains the link {path!r}, which points to no file in it ({target!r}); remove it from the "
        "archive"
    )
