"""A file that libraries read an archive from, without taking more into memory at a time than they should."""

import errno
import re
from typing import BinaryIO

from shared.errors import TooManyFiles

_LONG_NUMBER = re.compile(rb"\d{257}")  # no name and no number is one; some versions of tarfile take minutes over it


class GuardedReader:
    """Reads from `file`, between two calls of `allow` no more than was allowed; raises TooManyFiles for more.

    What archives keep in one piece are names and tables of names: a library that is told of large ones would hold them
    in memory.
    """

    def __init__(self, file: BinaryIO, most_bytes: int) -> None:
        self._file, self._left = file, most_bytes
        self._is_content = False

    def allow(self, most_bytes: int | None) -> None:
        """Take so many bytes of names from here on; None: content follows, which nobody keeps."""
        self._is_content, self._left = most_bytes is None, most_bytes or 0

    def read(self, size: int = -1) -> bytes:
        """Return up to `size` bytes, all that follow where negative."""
        if self._is_content:
            return self._file.read(size)
        piece = self._file.read(min(size, self._left + 1) if size >= 0 else self._left + 1)
        if size > self._left or len(piece) > self._left or _LONG_NUMBER.search(piece):
            raise TooManyFiles(
                "the archive has a table of names that is too large to be kept in memory; make one with fewer files"
            )
        self._left -= len(piece)
        return piece

    def seek(self, position: int, whence: int = 0) -> int:
        """Go to a position. Raises ValueError where no file has it."""
        try:
            return self._file.seek(position, whence)
        except OSError as error:
            if whence or error.errno != errno.EINVAL:
                raise
            raise ValueError(f"it names the position {position}") from error

    def tell(self) -> int:
        """Return the position."""
        return self._file.tell()

    def seekable(self) -> bool:
        """Return True."""
        return True
