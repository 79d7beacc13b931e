"""Opens paths below a directory without ever leaving it: symlinks are resolved here, one component at a time."""

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from shared.errors import AuthDenied, LarderError, SourceNotFound, Unreachable, UnsafePath

_MAX_LINKS = 40  # the limit of the kernel
_STEP = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Beneath:
    """A root directory; all paths are relative to it.

    Every method raises SourceNotFound, AuthDenied, UnsafePath, Unreachable. Messages call the root `place` and map
    paths by `name_of`; by default both are shown as they are on this machine.
    """

    root: str
    place: str = ""
    name_of: Callable[[str], str] | None = None

    def open(self, path: str) -> int:
        """Return a read-only descriptor of the regular file or directory at a path."""
        walk = self._walk(path)
        try:
            return walk.open()
        except OSError as error:
            raise _failure(walk, error) from error
        finally:
            walk.close()

    def files_below(self, path: str) -> Iterator[tuple[str, os.stat_result]]:
        """Yield (path below `path`, its stat) for each file; raises UnsafePath for a link to a directory."""
        for name, seen in self.entries_below(path):
            if isinstance(seen, LarderError):
                raise seen
            yield name, seen

    def entries_below(self, path: str) -> Iterator[tuple[str, os.stat_result | LarderError]]:
        """Like `files_below`, but yield an error for each name that is not a file.

        Such a name is a link that leaves the root, leads nowhere, or leads to a directory.
        """
        descriptor = self.open(path)
        try:
            with os.scandir(descriptor) as found:
                entries = sorted(entry.name for entry in found)
        finally:
            os.close(descriptor)
        for name in entries:
            inner = f"{path}/{name}" if path else name
            try:
                seen, is_link = self._look(inner)
            except (SourceNotFound, UnsafePath) as error:
                yield name, type(error)(str(error))  # without traceback: there may be many, and a caller may keep them
                continue
            if not stat.S_ISDIR(seen.st_mode):
                yield name, seen
            elif is_link:
                message = f"{self._walk(inner).name} is a link to a directory; replace it with the directory itself"
                yield name, UnsafePath(message)
            else:
                yield from ((f"{name}/{rest}", below) for rest, below in self.entries_below(inner))

    def _walk(self, path: str) -> "_Walk":
        name = self.name_of(path) if self.name_of else f"{self.root.rstrip('/')}/{path}"
        printable = name.encode(errors="backslashreplace").decode()  # a name need not be UTF-8, but a message is
        return _Walk(self.root, path, printable, self.place or self.root)

    def _look(self, path: str) -> tuple[os.stat_result, bool]:
        walk = self._walk(path)
        try:
            found = os.fstat(walk.step_through())
        except OSError as error:
            raise _failure(walk, error) from error
        finally:
            walk.close()
        if not stat.S_ISDIR(found.st_mode) and not stat.S_ISREG(found.st_mode):
            raise UnsafePath(f"{walk.name} is neither a file nor a directory; remove it")
        return found, walk.ended_in_link


@dataclass(slots=True)
class _Walk:
    """A path that is followed from the root; `_opened` holds the descriptors of its directories, the root first."""

    root: str
    path: str
    name: str
    place: str
    links: int = 0
    ended_in_link: bool = False
    _opened: list[int] = field(default_factory=list)

    def open(self) -> int:
        """Return a descriptor for reading, which the caller closes."""
        mode = os.fstat(found := self.step_through()).st_mode
        if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
            raise UnsafePath(f"{self.name} is neither a file nor a directory; name a file or directory")
        # Open what was checked, even if the name has been replaced since.
        return os.open(f"/proc/self/fd/{found}", _READ)

    def step_through(self) -> int:
        """Return an O_PATH descriptor of the file or directory at the end of the path."""
        self._opened.append(os.open(self.root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))
        left = [part for part in self.path.split("/") if part][::-1]
        while left:
            self._step(left)
        return self._opened[-1]

    def close(self) -> None:
        """Close all directories on the way."""
        for descriptor in self._opened:
            with suppress(OSError):
                os.close(descriptor)

    def _step(self, left: list[str]) -> None:
        part = left.pop()
        if part == "..":
            os.close(self._opened.pop())
            if not self._opened:
                raise self._escape_error()
            return
        descriptor = os.open(part, _STEP, dir_fd=self._opened[-1])
        if not stat.S_ISLNK(os.fstat(descriptor).st_mode):
            self._opened.append(descriptor)
            return
        try:
            target = os.readlink("", dir_fd=descriptor)
        finally:
            os.close(descriptor)
        self.links += 1
        self.ended_in_link = self.ended_in_link or not left
        if target.startswith("/") or self.links > _MAX_LINKS:
            raise self._escape_error()
        left += [inner for inner in target.split("/") if inner not in ("", ".")][::-1]

    def _escape_error(self) -> UnsafePath:
        out = "" if self.place == "/" else f"leads out of {self.place}, "
        return UnsafePath(
            f"{self.name} is or passes through a link that {out}is absolute or forms a loop, and is not followed; "
            "replace it with the file itself"
        )


def _failure(walk: _Walk, error: OSError) -> LarderError:
    match error:
        case FileNotFoundError() | NotADirectoryError() if walk.links:
            is_link = "is" if walk.ended_in_link else "passes through"
            return SourceNotFound(f"{walk.name} {is_link} a dangling link; replace it with the file itself")
        case FileNotFoundError() | NotADirectoryError():
            return SourceNotFound(f"there is no {walk.name} on this machine; correct the path")
        case PermissionError():
            return AuthDenied(f"{walk.name} cannot be read by the user of this program; change its permissions")
        case _:
            return Unreachable(f"{walk.name} cannot be read: {error.strerror}")
