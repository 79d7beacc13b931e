"""Limits how much of an archive's tables a library can read into memory at once."""

import errno
import re
from typing import BinaryIO

from shared.errors import TooManyFiles

_LONG_NUMBER = re.compile(rb"\d{257}")  # longer than any name or number; some versions of tarfile take minutes over it


class GuardedReader:
    """Reads from `file`; raises TooManyFiles after more than the allowed bytes between two calls of `allow`.

    Archives store names and tables of names in one piece, and a library given large ones would hold them in memory.
    """

    def __init__(self, file: BinaryIO, max_bytes: int) -> None:
        self._file, self._left = file, max_bytes
        self._is_content = False

    def allow(self, max_bytes: int | None) -> None:
        """Allow this many bytes of names from here on; None for content, which is unlimited because it is not kept."""
        self._is_content, self._left = max_bytes is None, max_bytes or 0

    def read(self, size: int = -1) -> bytes:
        """Return up to `size` bytes, or the rest if negative."""
        if self._is_content:
            return self._file.read(size)
        piece = self._file.read(min(size, self._left + 1) if size >= 0 else self._left + 1)
        if size > self._left or len(piece) > self._left or _LONG_NUMBER.search(piece):
            raise TooManyFiles(
                "the archive's table of contents is too large for memory; create an archive with fewer files"
            )
        self._left -= len(piece)
        return piece

    def seek(self, position: int, whence: int = 0) -> int:
        """Move to a position and return it. Raises ValueError for a position that no file can have."""
        try:
            return self._file.seek(position, whence)
        except OSError as error:
            if whence or error.errno != errno.EINVAL:
                raise
            raise ValueError(f"it refers to position {position}") from error

    def tell(self) -> int:
        """Return the position."""
        return self._file.tell()

    def seekable(self) -> bool:
        """Return True."""
        return True
