"""One file while it is put together: which of its bytes are here, and which are being fetched."""

import threading
from collections.abc import Callable

from agent.store.partials import Partial
from agent.store.verify import Check
from agent.transfer.hashing import Hashing
from shared.byte_ranges import ByteRange, ByteRanges
from shared.manifest import File

PIECE_BYTES = 16 * 2**20
_NOTE_BYTES = 2**17  # what a kill costs each connection, beside what is in its buffer
_LOOK_S = 0.2


class Segment:
    """The bytes that one receiver fetches: from `position`, which moves on, to `end`, which may come nearer."""

    __slots__ = ("end", "generation", "noted", "position")

    def __init__(self, span: ByteRange, generation: int) -> None:
        self.position, self.end, self.noted, self.generation = span.start, span.end, span.start, generation

    @property
    def left(self) -> ByteRange:
        """What is still to come."""
        return ByteRange(self.position, self.end)


class SegmentedFile:
    """A file's bytes in its partial file, written by several receivers, and hashed in order. Thread-safe.

    A receiver whose bytes are the next to be hashed does that itself, from its buffer; the others' are left to one who
    follows. `divisible` is whether its source gives out parts; one that does not is fetched by one receiver at a time.
    `generation` counts how often it was started over: what was claimed before that is not kept.
    `make_check` begins a hash of the file's bytes.
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
        """How many bytes are not here."""
        with self._changed:
            return self.file.size - self.partial.held.size_bytes

    @property
    def receivers(self) -> int:
        """How many fetch parts of it."""
        return len(self._segments)

    def take_segment(self, most_bytes: int | None = None) -> Segment | None:
        """Take the first bytes that nobody fetches, as far as the next that are here or fetched; None without any."""
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
        """Take a piece off what others fetch or nobody does yet; None where it is not worth another request."""
        with self._changed:
            if not self.divisible:
                return None
            for segment in self._segments:  # who fetches all that follows fetches one piece from here on
                if segment.end - segment.position > 2 * PIECE_BYTES:
                    segment.end = segment.position + PIECE_BYTES
        return self.take_segment(PIECE_BYTES)

    def write(self, segment: Segment, data: memoryview, *, last: bool = False) -> None:
        """Put the next bytes of a claim in their place; `last` where others will be some time in coming.

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
        """Hold the hashing for the next bytes of a claim where they are the next to be hashed, and nobody does that."""
        is_next = not self.hashing.busy and self.hashing.done == segment.position
        self.hashing.busy = self.hashing.busy or is_next
        return is_next

    def put_front(self, data: memoryview) -> None:
        """Put the first bytes of a file in their place of which nothing is here and that nobody has a claim on.

        Raises InsufficientStorage, StoreFailure.
        """
        self.partial.write(data, 0)
        with self._changed:
            self.partial.held.add(front := ByteRange(0, len(data)))
            if 0 < front.end < self.file.size:
                self.partial.note(front)
        self.hashing.feed(data)

    def give_back(self, segment: Segment) -> None:
        """End a claim; what it has brought is kept. Raises InsufficientStorage, StoreFailure."""
        with self._changed:
            self._segments.remove(segment)
            if segment.generation == self.generation and self.partial.held.size_bytes < self.file.size:
                self._note(segment)

    def discard(self, *, give_up: bool = False) -> int:
        """Start over with nothing, or give the file up; returns how many bytes were here. Raises StoreFailure.

        One that is finished stays: it may be a blob already.
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
            self._emptying += 1  # two may start over at once
            try:
                while self._writing:  # else old bytes could come over new ones, which are hashed from memory
                    self._changed.wait()
                self.partial.discard()
            finally:
                self._emptying -= 1
            return size

    def finish(self, hashing: Hashing) -> bool:
        """Have the file stay as it is, for it is whole and right; False where it was started over meanwhile."""
        with self._changed:
            self._finished = hashing is self.hashing
            return self._finished

    def unhashed(self, hashing: Hashing, stop: threading.Event) -> ByteRange | None:
        """Wait for bytes that are here without a gap and nobody hashes, and hold `hashing` for them.

        Returns an empty span, and holds nothing, once the file is whole; None where `stop` was set or the file was
        started over.
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
        """Let the next one hash."""
        with self._changed:
            hashing.busy = False
            if hashing.whole or self.partial.held.front > hashing.done:
                self._changed.notify_all()

    def _note(self, segment: Segment) -> None:
        if segment.position > segment.noted:
            self.partial.note(ByteRange(segment.noted, segment.position))
            segment.noted = segment.position
