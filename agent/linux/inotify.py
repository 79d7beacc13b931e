"""Notifications of changes in directories (inotify), so that scans can be rare."""

import ctypes
import errno
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Self

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.inotify_add_watch.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_uint32)
_MODIFY, _ATTRIB, _MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x2, 0x4, 0x40, 0x80, 0x100, 0x200
_MOVE_SELF, _ONLY_DIRECTORIES, _NO_LINKS = 0x800, 0x01000000, 0x02000000
_CHANGES = _MODIFY | _ATTRIB | _MOVED_FROM | _MOVED_TO | _DELETE | _MOVE_SELF | _ONLY_DIRECTORIES | _NO_LINKS
_READ_BYTES = 2**16
_NOT_THERE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EACCES}  # the next scan finds out why


class InotifyWatch:
    """Watches directories, not recursively; `descriptor` becomes readable after a change.

    Writes through a memory mapping, or through a name outside these directories, are not reported.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    @classmethod
    def open(cls) -> Self | None:
        """Return a watch; None if this user has reached the kernel's limit."""
        descriptor = _LIBC.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        return cls(descriptor) if descriptor >= 0 else None

    def cover(self, directories: Iterable[Path], *, creations: bool) -> bool:
        """Watch these directories too; return False if the kernel's limit does not allow all.

        `creations` adds the creation of names to changes and removals. Directories watched before stay watched.
        """
        mask = _CHANGES | (_CREATE if creations else 0)
        return all(self._add(directory, mask) for directory in directories)

    def drain(self) -> bool:
        """Discard pending notifications and return whether there were any."""
        found = False
        with suppress(BlockingIOError):
            while os.read(self.descriptor, _READ_BYTES):
                found = True
        return found

    def close(self) -> None:
        """Stop watching."""
        os.close(self.descriptor)

    def _add(self, directory: Path, mask: int) -> bool:
        if _LIBC.inotify_add_watch(self.descriptor, os.fsencode(directory), mask) >= 0:
            return True
        return ctypes.get_errno() in _NOT_THERE
