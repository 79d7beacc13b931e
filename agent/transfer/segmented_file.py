"""A file being put together: which bytes are here, and which are being received."""

import threading
from collections.abc import Callable

from agent.store.partials import Partial
from agent.store.verify import Check
from agent.transfer.hashing import Hashing
from shared.byte_ranges import ByteRange, ByteRanges
from shared.manifest import File

PIECE_BYTES = 16 * 2**20
_NOTE_BYTES = 2**17  # what a kill costs each connection, besides its buffer
_LOOK_S = 0.2


class Segment:
    """The bytes one receiver fetches, from `position`, which advances, to `end`, which may be lowered."""

    __slots__ = ("end", "generation", "noted", "position")

    def __init__(self, span: ByteRange, generation: int) -> None:
        self.position, self.end, self.noted, self.generation = span.start, span.end, span.start, generation

    @property
    def left(self) -> ByteRange:
        """The bytes still to come."""
        return ByteRange(self.position, self.end)


class SegmentedFile:
    """A partial file written by several receivers and hashed in order. Thread-safe.

    A receiver that holds the next bytes to hash does so from its buffer; the other bytes are left to a separate hashing
    thread. `divisible` tells whether the source serves ranges; if not, one receiver at a time fetches the file.
    `generation` counts restarts: bytes of segments taken before a restart are dropped. `make_check` starts a hash of
    the file's bytes.
    """

    def __init__(self, file: File, partial: Partial, make_check: Callable[[File], Check]) -> None:
        self.file, self.partial, self.divisible, self.generation = file, partial, True, 0
        self.hashing, self._make_check = Hashing(make_check(file), partial), make_check
        self._segments: list[Segment] = []
        self._writing = 0
        self._given_up = self._finished = False
        self._emptying = 0
        self._changed = threading.Condition()

    @property
    def missing_bytes(self) -> int:
        """The number of bytes not here yet."""
        with self._changed:
            return self.file.size - self.partial.held.size_bytes

    @property
    def receivers(self) -> int:
        """The number of segments being received."""
        return len(self._segments)

    def take_segment(self, most_bytes: int | None = None) -> Segment | None:
        """Take the first bytes nobody fetches, up to the next that are here or being fetched; None without any."""
        with self._changed:
            if self._given_up or self._emptying:
                return None
            taken = ByteRanges((*self.partial.held, *(segment.left for segment in self._segments)))
            gap = next(taken.gaps(self.file.size), None)
            if gap is None:
                return None
            end = gap.end if most_bytes is None else min(gap.end, gap.start + most_bytes)
            self._segments.append(segment := Segment(ByteRange(gap.start, end), self.generation))
            return segment

    def share(self) -> Segment | None:
        """Take a piece that others fetch or nobody does yet; None if it is not worth another request."""
        with self._changed:
            if not self.divisible:
                return None
            for segment in self._segments:  # a receiver of a long rest gets one piece from here on
                if segment.end - segment.position > 2 * PIECE_BYTES:
                    segment.end = segment.position + PIECE_BYTES
        return self.take_segment(PIECE_BYTES)

    def write(self, segment: Segment, data: memoryview, *, last: bool = False) -> None:
        """Write the next bytes of a segment; `last` if more will take a while to arrive.

        Raises InsufficientStorage, StoreFailure.
        """
        with self._changed:
            if segment.generation != self.generation:
                return
            hashing, is_next = self.hashing, self._hold_next(segment)
            self._writing += 1
        try:
            self.partial.write(data, segment.position, once=is_next)
            with self._changed:
                if segment.generation != self.generation:
                    return
                is_next = is_next or self._hold_next(segment)
                self.partial.held.add(ByteRange(segment.position, segment.position + len(data)))
                segment.position += len(data)
                if (last or segment.position - segment.noted >= _NOTE_BYTES) and segment.position < segment.end:
                    self._note(segment)
                if not is_next:
                    self._changed.notify_all()
            if is_next:
                hashing.feed(data)
        finally:
            if is_next:
                self.leave(hashing)
            with self._changed:
                self._writing -= 1
                if segment.generation != self.generation:
                    self._changed.notify_all()

    def _hold_next(self, segment: Segment) -> bool:
        """Take the hashing lock if a segment's next bytes are the next to hash and nobody holds it."""
        is_next = not self.hashing.busy and self.hashing.done == segment.position
        self.hashing.busy = self.hashing.busy or is_next
        return is_next

    def put_front(self, data: memoryview) -> None:
        """Write the first bytes of a file of which nothing is here and no segment is taken.

        Raises InsufficientStorage, StoreFailure.
        """
        self.partial.write(data, 0)
        with self._changed:
            self.partial.held.add(front := ByteRange(0, len(data)))
            if 0 < front.end < self.file.size:
                self.partial.note(front)
        self.hashing.feed(data)

    def give_back(self, segment: Segment) -> None:
        """End a segment; the bytes it received are kept. Raises InsufficientStorage, StoreFailure."""
        with self._changed:
            self._segments.remove(segment)
            if segment.generation == self.generation and self.partial.held.size_bytes < self.file.size:
                self._note(segment)

    def discard(self, *, give_up: bool = False) -> int:
        """Start the file over, or give it up; return how many bytes were here. Raises StoreFailure.

        A finished file stays: it may already be a blob.
        """
        with self._changed:
            if self._finished:
                return 0
            self._given_up = give_up
            size = self.partial.held.size_bytes
            self.partial.held.clear()
            self.generation += 1
            self.hashing = Hashing(self._make_check(self.file), self.partial)
            for segment in self._segments:
                segment.end = segment.position
            self._emptying += 1  # two threads may start over at once
            try:
                while self._writing:  # else old bytes could overwrite new ones, which are hashed from memory
                    self._changed.wait()
                self.partial.discard()
            finally:
                self._emptying -= 1
            return size

    def finish(self, hashing: Hashing) -> bool:
        """Freeze the file as complete and verified; return False if it was started over meanwhile."""
        with self._changed:
            self._finished = hashing is self.hashing
            return self._finished

    def unhashed(self, hashing: Hashing, stop: threading.Event) -> ByteRange | None:
        """Wait for contiguous bytes that nobody hashes, and take the hashing lock for them.

        Returns:
            Those bytes; an empty range without the lock once the whole file is hashed; None if `stop` was set or the
            file was started over.
        """
        with self._changed:
            while not stop.is_set() and hashing is self.hashing:
                front = self.partial.held.front
                if not hashing.busy and (front > hashing.done or hashing.whole):
                    hashing.busy = not hashing.whole
                    return ByteRange(hashing.done, front)
                self._changed.wait(_LOOK_S)
            return None

    def leave(self, hashing: Hashing) -> None:
        """Release the hashing lock."""
        with self._changed:
            hashing.busy = False
            if hashing.whole or self.partial.held.front > hashing.done:
                self._changed.notify_all()

    def _note(self, segment: Segment) -> None:
        if segment.position > segment.noted:
            self.partial.note(ByteRange(segment.noted, segment.position))
            segment.noted = segment.position
