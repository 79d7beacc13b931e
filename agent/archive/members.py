"""Which members of an archive become files, decided before anything is written."""

import posixpath
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto

from shared.errors import TooManyFiles, UnsafePath
from shared.paths import check_paths

_SET_ID_BITS = 0o6000
_MOST_LINKS = 40
_HERE = re.compile(r"^(?:\./+)+|^\.$")


class Type(Enum):
    """What a member is; `OTHER` are devices, pipes and all that is no file."""

    FILE = auto()
    DIRECTORY = auto()
    SYMBOLIC_LINK = auto()
    HARD_LINK = auto()
    OTHER = auto()


@dataclass(frozen=True, slots=True)
class ArchiveEntry:
    """A member as the archive has it: name, size in bytes, permission bits, and where a link leads."""

    name: str
    type: Type
    size: int = 0
    mode: int = 0
    target: str = ""


@dataclass(frozen=True, slots=True)
class Member:
    """A file to be: its path, its size in bytes, and whose bytes it has (its own path where they are its own)."""

    path: str
    size: int
    of: str


@dataclass(frozen=True, slots=True)
class UnpackLimits:
    """The most bytes that may be written and the most members that may be there, directories included."""

    bytes: int
    members: int = 20_000


@dataclass(slots=True)
class Tally:
    """What the archives of a model that were looked at so far have: limits are for all of them together."""

    bytes: int = 0
    members: int = 0


class Oversize(Exception):
    """The files of archives are more bytes than may be written: `size_bytes`, or more where it was not read on."""

    def __init__(self, size_bytes: int) -> None:
        super().__init__(f"{size_bytes} bytes or more")
        self.size_bytes = size_bytes


def plain_name(name: str) -> str:
    """Return a name without `./` in front; `.` alone is the archive's top, which is ""."""
    return _HERE.sub("", name)


def decide_members(
    entries: Iterable[ArchiveEntry], limits: UnpackLimits, tally: Tally | None = None
) -> tuple[Member, ...]:
    """Return the files, sorted by path; the first unsafe member refuses the whole archive.

    A link within the archive becomes another name of the file that it leads to. Entries are taken one by one and no
    further than the limits go, which what is in the `tally` already counts towards; this archive is added to it. Raises
    UnsafePath, TooManyFiles, Oversize.
    """
    sizes: dict[str, int] = {}
    links: dict[str, str] = {}
    directories: set[str] = set()
    tally = tally or Tally()
    which = "archives have" if tally.members else "archive has"
    for entry in entries:
        tally.members += 1
        if tally.members > limits.members:
            raise TooManyFiles(f"the {which} more than {limits.members} members; make one with fewer files")
        path = _path_of(entry)
        _check_type(entry)
        if entry.type is Type.DIRECTORY:
            directories.add(path)
            continue
        if path in sizes or path in links:
            raise UnsafePath(f"the archive has {path!r} twice; make it anew")
        if entry.type is Type.FILE:
            sizes[path] = entry.size
            tally.bytes += entry.size
        else:
            links[path] = _target_of(entry, path)
        if tally.bytes > limits.bytes:
            raise Oversize(tally.bytes)
    _check_names([*sizes, *links], directories)
    own = [Member(path, size, path) for path, size in sizes.items()]
    aliases = [_alias(path, links, sizes) for path in links]
    return tuple(sorted((*own, *aliases), key=lambda member: member.path))


def _path_of(entry: ArchiveEntry) -> str:
    """Return the name without what means nothing: `./` in front, `/` behind a directory."""
    name = plain_name(entry.name)
    return name.rstrip("/").removesuffix("/.") if entry.type is Type.DIRECTORY else name


def _check_type(entry: ArchiveEntry) -> None:
    if entry.size < 0:
        raise UnsafePath(f"the archive declares a size of {entry.size} for {entry.name!r}; make it anew")
    if entry.type is Type.OTHER:
        raise UnsafePath(f"the archive has {entry.name!r}, which is neither file, directory nor link; leave it out")
    if entry.type is not Type.DIRECTORY and entry.mode & _SET_ID_BITS:
        raise UnsafePath(f"the archive has {entry.name!r} with the setuid or setgid bit; make it without")


def _target_of(entry: ArchiveEntry, path: str) -> str:
    """Return the path below the archive's top that a link leads to: symbolic ones start beside themselves."""
    beside = posixpath.dirname(path) if entry.type is Type.SYMBOLIC_LINK else ""
    target = posixpath.normpath(posixpath.join(beside, entry.target)) if entry.target else ".."
    if target.startswith(("/", "../")) or target == ".." or "\0" in target:
        raise UnsafePath(f"the archive has the link {path!r} to {entry.target!r}, which leads out of it; leave it out")
    return target


def _check_names(files: list[str], directories: set[str]) -> None:
    """Raise UnsafePath unless all can stand together, also where names are compared without case."""
    check_paths(files)
    known = set(files)
    spelled: dict[str, str] = {}
    for directory in sorted(directories - {"", "."}):
        check_paths([directory])
        if clash := next((parent for parent in _with_parents(directory) if parent in known), ""):
            raise UnsafePath(f"the archive has {clash!r} as a file and as a directory; rename one")
    for name in (name for path in (*files, *sorted(directories)) for name in _with_parents(path)):
        other = spelled.setdefault(_folded(name), name)
        if other != name:
            raise UnsafePath(
                f"the archive has both {other!r} and {name!r}, which some file systems hold for one; rename one"
            )


def check_together(places: Mapping[str, Iterable[str]]) -> None:
    """Raise UnsafePath, naming both, where a file of one archive is in the way of another's.

    `places` are the paths of each archive's files, by its name; those of "" are beside the archives.
    """
    seen: dict[str, _Seen] = {}
    for place, paths in places.items():
        for path in paths:
            for name in _with_parents(path):
                here = _Seen(name, place, is_file=name == path)
                there = seen.setdefault(_folded(name), here)
                if there.place != place and (here.is_file or there.is_file or here.name != there.name):
                    raise UnsafePath(_clash(there, here))


@dataclass(frozen=True, slots=True)
class _Seen:
    name: str
    place: str
    is_file: bool

    def __str__(self) -> str:
        what = "file" if self.is_file else "directory"
        return f"the {what} {self.name!r} {f'in {self.place!r}' if self.place else 'beside the archives'}"


def _clash(one: _Seen, other: _Seen) -> str:
    if one.name != other.name:
        return f"the model has {one} and {other}, which some file systems hold for one; rename one"
    return f"the model has {one} and {other}, which cannot stand together; leave one out"


def _folded(name: str) -> str:
    """Return what names have in common that some file systems hold for one."""
    return unicodedata.normalize("NFC", name).casefold()


def _with_parents(path: str) -> Iterator[str]:
    while path:
        yield path
        path = posixpath.dirname(path)


def _alias(path: str, links: Mapping[str, str], sizes: Mapping[str, int]) -> Member:
    target = path
    for _ in range(_MOST_LINKS):
        target = links[target]
        if target in sizes:
            return Member(path, sizes[target], target)
        if target not in links:
            break
    raise UnsafePath(f"the archive has the link {path!r}, which leads to no file in it ({target!r}); leave it out")
