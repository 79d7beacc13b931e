"""Byte ranges in a file, and sets of them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class ByteRange:
    """The bytes from `start` up to, but not including, `end`."""

    start: int
    end: int

    @property
    def size_bytes(self) -> int:
        """The number of bytes."""
        return self.end - self.start


class ByteRanges:
    """Bytes of one file, as the fewest disjoint ranges in ascending order. Not thread-safe."""

    __slots__ = ("_ranges",)

    def __init__(self, ranges: Iterable[ByteRange] = ()) -> None:
        self._ranges: list[ByteRange] = []
        for byte_range in ranges:
            self.add(byte_range)

    def __iter__(self) -> Iterator[ByteRange]:
        return iter(self._ranges)

    def add(self, byte_range: ByteRange) -> None:
        """Add the bytes of a range, which may overlap those present."""
        if byte_range.size_bytes <= 0:
            return
        start, end = byte_range.start, byte_range.end
        apart: list[ByteRange] = []
        for other in self._ranges:
            if other.end < start or other.start > end:
                apart.append(other)
            else:
                start, end = min(start, other.start), max(end, other.end)
        apart.append(ByteRange(start, end))
        apart.sort()
        self._ranges = apart

    def clear(self) -> None:
        """Remove everything."""
        self._ranges = []

    @property
    def size_bytes(self) -> int:
        """The number of bytes present."""
        return sum(byte_range.size_bytes for byte_range in self._ranges)

    @property
    def front(self) -> int:
        """The end of the bytes present without a gap from the start."""
        return self._ranges[0].end if self._ranges and self._ranges[0].start == 0 else 0

    def within(self, size: int) -> "ByteRanges":
        """Return the ranges within the first `size` bytes."""
        return ByteRanges(
            ByteRange(byte_range.start, min(byte_range.end, size))
            for byte_range in self._ranges
            if byte_range.start < size
        )

    def gaps(self, size: int) -> Iterator[ByteRange]:
        """Yield the gaps in the first `size` bytes, in order."""
        start = 0
        for byte_range in self._ranges:
            if byte_range.start >= size:
                break
            if byte_range.start > start:
                yield ByteRange(start, byte_range.start)
            start = byte_range.end
        if start < size:
            yield ByteRange(start, size)
