"""What an archive holds, part by part, and how much work may be put into one file."""

import io
from dataclasses import dataclass
from typing import BinaryIO

PEEK_BYTES = 2**20
MOST_PARTS = 20_000
_MOST_WORK = 50_000_000
_WORK_OF_A_PART = 100
_BYTES_A_WORK = 256


class UnreadableError(Exception):
    """Says why something cannot be looked through, in words that follow a file's name."""


@dataclass(frozen=True, slots=True)
class Part:
    """A file in an archive; `cut` is whether only its start is here."""

    name: str
    file: BinaryIO
    size: int
    cut: bool


@dataclass(slots=True)
class Budget:
    """What is left of the work that one file may cost: about a microsecond a piece."""

    left: int = _MOST_WORK

    def spend(self, work: int = _WORK_OF_A_PART, *, unpacked_bytes: int = 0) -> None:
        """Raise UnreadableError where all is used up."""
        self.left -= work + unpacked_bytes // _BYTES_A_WORK
        if self.left < 0:
            raise UnreadableError("is packed so that it takes too long to be looked through")


def window(file: BinaryIO, offset: int, size: int) -> BinaryIO:
    """Return some bytes of a file as a file."""
    return io.BufferedReader(_Window(file, offset, size))


class _Window(io.RawIOBase):
    def __init__(self, file: BinaryIO, offset: int, size: int) -> None:
        super().__init__()
        self._file, self._offset, self._size, self._at = file, offset, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]  # all that a BufferedReader gives
        self._file.seek(self._offset + self._at)
        found = self._file.read(max(0, min(len(buffer), self._size - self._at)))
        buffer[: len(found)] = found
        self._at += len(found)
        return len(found)
