"""A file that libraries read an archive from, without taking more into memory at a time than they should."""

from typing import BinaryIO

from shared.errors import TooManyFiles


class GuardedReader:
    """Reads from `file`, at most `most_bytes` in one piece; raises TooManyFiles for more.

    What archives keep in one piece are tables of names: a library that is told of a large one would hold it in memory.
    """

    def __init__(self, file: BinaryIO, most_bytes: int) -> None:
        self._file, self._most_bytes = file, most_bytes

    def read(self, size: int = -1) -> bytes:
        """Return up to `size` bytes, all that follow where negative."""
        piece = self._file.read(min(size, self._most_bytes + 1) if size >= 0 else self._most_bytes + 1)
        if size > self._most_bytes or len(piece) > self._most_bytes:
            raise TooManyFiles(
                "the archive has a table of names that is too large to be kept in memory; make one with fewer files"
            )
        return piece

    def seek(self, position: int, whence: int = 0) -> int:
        """Go to a position."""
        return self._file.seek(position, whence)

    def tell(self) -> int:
        """Return the position."""
        return self._file.tell()

    def seekable(self) -> bool:
        """Return True."""
        return True
