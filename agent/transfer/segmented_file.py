"""A file being put together: which bytes are here, and which are being received."""

import threading
from collections.abc import Callable
from enum import Enum, auto

from agent.store.partials import Partial
from agent.store.verify import FileHasher
from agent.transfer.hashing import Hashing
from shared.byte_ranges import ByteRange, ByteRanges
from shared.manifest import File

PIECE_BYTES = 16 * 2**20
_NOTE_BYTES = 2**17  # bytes that each connection may lose in a kill, besides its buffer
_LOOK_S = 0.2


class Segment:
    """The bytes one receiver fetches, from `position`, which advances, to `end`, which may be lowered.

    `hashing` is the file's hash when the segment was taken; if the file has another one now, it was started over.
    """

    __slots__ = ("end", "hashing", "noted", "position")

    def __init__(self, left: ByteRange, hashing: Hashing) -> None:
        self.position, self.end, self.noted, self.hashing = left.start, left.end, left.start, hashing

    @property
    def left(self) -> ByteRange:
        """The bytes still to come."""
        return ByteRange(self.position, self.end)


class _State(Enum):
    FILLING = auto()  # segments may be taken
    EMPTYING = auto()  # waiting for writes to segments that were taken before the restart
    GIVEN_UP = auto()
    FINISHED = auto()  # complete and verified: it may already be a blob


class SegmentedFile:
    """A partial file written by several receivers and hashed in order. Thread-safe.

        FILLING ──finish──▶ FINISHED
         │   ▲
      discard └── empty again
         ▼   │
        EMPTYING ──if that was the last attempt──▶ GIVEN_UP

    A receiver that has the next bytes to hash takes them from its buffer. A separate thread hashes all other bytes.
    Example: A receives bytes 0 to 16 MiB, and B the bytes after them. B only writes. A hashes each buffer after writing
    it. When A is done, `held.front` is where B is now, and `hashing.done` is 16 MiB. The hashing thread reads the bytes
    between them back from the file. Once it has caught up with B, B hashes its own buffers.

    `divisible` is whether the source serves ranges; if not, one receiver at a time fetches the file. `make_hasher`
    starts a hash of the file's bytes. Each time the file is started over, it gets a new `hashing`, and writes to
    earlier segments are dropped.
    """

    def __init__(self, file: File, partial: Partial, make_hasher: Callable[[File], FileHasher]) -> None:
        self.file, self.partial, self.divisible = file, partial, True
        self.hashing, self._make_hasher = Hashing(make_hasher(file), partial), make_hasher
        self._segments: list[Segment] = []
        self._state, self._writers = _State.FILLING, 0
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

    def take_segment(self, max_bytes: int | None = None) -> Segment | None:
        """Take the first range that is neither here nor being fetched; None if there is none."""
        with self._changed:
            if self._state is not _State.FILLING:
                return None
            taken = ByteRanges((*self.partial.held, *(segment.left for segment in self._segments)))
            gap = next(taken.gaps(self.file.size), None)
            if gap is None:
                return None
            end = gap.end if max_bytes is None else min(gap.end, gap.start + max_bytes)
            self._segments.append(segment := Segment(ByteRange(gap.start, end), self.hashing))
            return segment

    def split_segment(self) -> Segment | None:
        """Take a part of another receiver's segment, or of a free range; None if it is not worth another request."""
        with self._changed:
            if not self.divisible:
                return None
            for segment in self._segments:  # leave other receivers with a lot to fetch only one piece
                if segment.end - segment.position > 2 * PIECE_BYTES:
                    segment.end = segment.position + PIECE_BYTES
        return self.take_segment(PIECE_BYTES)

    def write(self, segment: Segment, data: memoryview, *, last: bool = False) -> None:
        """Write the next bytes of a segment, and hash them if they are the next to hash.

        Set `last` if the next bytes will take a while to arrive. Raises InsufficientStorage, StoreFailure.
        """
        hashing = segment.hashing
        with self._changed:
            if hashing is not self.hashing:
                return
            hashes = hashing.take(segment.position)
            self._writers += 1
        try:
            self.partial.write(data, segment.position, once=hashes)
            with self._changed:
                if hashing is not self.hashing:
                    return
                hashes = hashes or hashing.take(segment.position)  # the bytes before may have been hashed meanwhile
                self._record(segment, len(data), last=last)
                if not hashes:
                    self._changed.notify_all()  # the hashing thread may have been waiting for these bytes
            if hashes:
                hashing.feed(data)
        finally:
            if hashes:
                self.release_hash(hashing)
            with self._changed:
                self._writers -= 1
                if hashing is not self.hashing:
                    self._changed.notify_all()

    def _record(self, segment: Segment, size_bytes: int, *, last: bool) -> None:
        """Record bytes that are written to the file."""
        start = segment.position
        segment.position += size_bytes
        self.partial.held.add(ByteRange(start, segment.position))
        if (last or segment.position - segment.noted >= _NOTE_BYTES) and segment.position < segment.end:
            self._note(segment)

    def put_front(self, data: memoryview) -> None:
        """Write the first bytes of a file, while none of it is here and no segment is taken.

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
            if segment.hashing is self.hashing and self.partial.held.size_bytes < self.file.size:
                self._note(segment)

    def discard(self, *, give_up: bool = False) -> int:
        """Start the file over, or give it up; return how many bytes were here. Raises StoreFailure.

        A finished file stays, since it may already be a blob. Receivers notice no later than at the end of their
        segment. This waits for receivers that are writing, because their old bytes could overwrite new ones that have
        already been hashed from memory.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._state is not _State.EMPTYING)
            if self._state is _State.FINISHED:
                return 0
            give_up = give_up or self._state is _State.GIVEN_UP
            size_bytes = self.partial.held.size_bytes
            self.partial.held.clear()
            self.hashing = Hashing(self._make_hasher(self.file), self.partial)
            for segment in self._segments:
                segment.end = segment.position
            self._state = _State.EMPTYING
            try:
                self._changed.wait_for(lambda: not self._writers)
                self.partial.discard()
            finally:
                self._state = _State.GIVEN_UP if give_up else _State.FILLING
                self._changed.notify_all()
            return size_bytes

    def finish(self, hashing: Hashing) -> bool:
        """Freeze the file as complete and verified; return False if it was started over meanwhile."""
        with self._changed:
            if hashing is not self.hashing:
                return False
            self._state = _State.FINISHED
            return True

    def take_unhashed(self, hashing: Hashing, stop: threading.Event) -> ByteRange | None:
        """Wait for contiguous bytes that no thread is hashing, and take the hash for them.

        Returns:
            Those bytes; an empty range without the hash once the whole file is hashed; None if `stop` was set or the
            file was started over.
        """
        with self._changed:
            while not stop.is_set() and hashing is self.hashing:
                front = self.partial.held.front
                if hashing.whole and not hashing.busy:
                    return ByteRange(front, front)
                if front > hashing.done and hashing.take(hashing.done):
                    return ByteRange(hashing.done, front)
                self._changed.wait(_LOOK_S)
            return None

    def release_hash(self, hashing: Hashing) -> None:
        """Let another thread take the hash."""
        with self._changed:
            hashing.busy = False
            if hashing.whole or self.partial.held.front > hashing.done:
                self._changed.notify_all()

    def _note(self, segment: Segment) -> None:
        """Record which bytes of the segment are here, for the next process after a kill."""
        if segment.position > segment.noted:
            self.partial.note(ByteRange(segment.noted, segment.position))
            segment.noted = segment.position
