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

    __slots__ = ("_spans",)

    def __init__(self, spans: Iterable[ByteRange] = ()) -> None:
        self._spans: list[ByteRange] = []
        for span in spans:
            self.add(span)

    def __iter__(self) -> Iterator[ByteRange]:
        return iter(self._spans)

    def add(self, span: ByteRange) -> None:
        """Add the bytes of a range, which may overlap those present."""
        if span.size_bytes <= 0:
            return
        start, end = span.start, span.end
        apart: list[ByteRange] = []
        for other in self._spans:
            if other.end < start or other.start > end:
                apart.append(other)
            else:
                start, end = min(start, other.start), max(end, other.end)
        apart.append(ByteRange(start, end))
        apart.sort()
        self._spans = apart

    def clear(self) -> None:
        """Remove everything."""
        self._spans = []

    @property
    def size_bytes(self) -> int:
        """The number of bytes present."""
        return sum(span.size_bytes for span in self._spans)

    @property
    def front(self) -> int:
        """The end of the bytes present without a gap from the start."""
        return self._spans[0].end if self._spans and self._spans[0].start == 0 else 0

    def within(self, size: int) -> "ByteRanges":
        """Return the ranges within the first `size` bytes."""
        return ByteRanges(ByteRange(span.start, min(span.end, size)) for span in self._spans if span.start < size)

    def gaps(self, size: int) -> Iterator[ByteRange]:
        """Yield the gaps in the first `size` bytes, in order."""
        start = 0
        for span in self._spans:
            if span.start >= size:
                break
            if span.start > start:
                yield ByteRange(start, span.start)
            start = span.end
        if start < size:
            yield ByteRange(start, size)
