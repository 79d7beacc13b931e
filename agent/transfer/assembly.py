"""One file while it is put together: which of its bytes are here, and which are being fetched."""

import threading
from collections.abc import Callable

from agent.store.partials import Partial
from agent.transfer.hashing import Hashing
from agent.verify import Check
from shared.manifest import File
from shared.spans import Span, Spans

PIECE_BYTES = 16 * 2**20
_NOTE_BYTES = 2**17  # what a kill costs each connection, beside what is in its buffer
_LOOK_S = 0.2


class Claim:
    """The bytes that one receiver fetches: from `position`, which moves on, to `end`, which may come nearer."""

    __slots__ = ("end", "generation", "noted", "position")

    def __init__(self, span: Span, generation: int) -> None:
        self.position, self.end, self.noted, self.generation = span.start, span.end, span.start, generation

    @property
    def left(self) -> Span:
        """What is still to come."""
        return Span(self.position, self.end)


class Assembly:
    """A file's bytes in its partial file, written by several receivers, and hashed in order. Thread-safe.

    A receiver whose bytes are the next to be hashed does that itself, from its buffer; the others' are left to one who
    follows. `divisible` is whether its source gives out parts; one that does not is fetched by one receiver at a time.
    `generation` counts how often it was started over: what was claimed before that is not kept.
    `make_check` begins a hash of the file's bytes.
    """

    def __init__(self, file: File, partial: Partial, make_check: Callable[[File], Check]) -> None:
        self.file, self.partial, self.divisible, self.generation = file, partial, True, 0
        self.hashing, self._make_check = Hashing(make_check(file), partial), make_check
        self._claims: list[Claim] = []
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
        return len(self._claims)

    def claim(self, most_bytes: int | None = None) -> Claim | None:
        """Take the first bytes that nobody fetches, as far as the next that are here or fetched; None without any."""
        with self._changed:
            if self._given_up or self._emptying:
                return None
            taken = Spans((*self.partial.held, *(claim.left for claim in self._claims)))
            gap = next(taken.gaps(self.file.size), None)
            if gap is None:
                return None
            end = gap.end if most_bytes is None else min(gap.end, gap.start + most_bytes)
            self._claims.append(claim := Claim(Span(gap.start, end), self.generation))
            return claim

    def share(self) -> Claim | None:
        """Take a piece off what others fetch or nobody does yet; None where it is not worth another request."""
        with self._changed:
            if not self.divisible:
                return None
            for claim in self._claims:  # who fetches all that follows fetches one piece from here on
                if claim.end - claim.position > 2 * PIECE_BYTES:
                    claim.end = claim.position + PIECE_BYTES
        return self.claim(PIECE_BYTES)

    def write(self, claim: Claim, data: memoryview, *, last: bool = False) -> None:
        """Put the next bytes of a claim in their place; `last` where others will be some time in coming.

        Raises InsufficientStorage, StoreFailure.
        """
        with self._changed:
            if claim.generation != self.generation:
                return
            hashing, is_next = self.hashing, self._hold_next(claim)
            self._writing += 1
        try:
            self.partial.write(data, claim.position, once=is_next)
            with self._changed:
                if claim.generation != self.generation:
                    return
                is_next = is_next or self._hold_next(claim)
                self.partial.held.add(Span(claim.position, claim.position + len(data)))
                claim.position += len(data)
                if (last or claim.position - claim.noted >= _NOTE_BYTES) and claim.position < claim.end:
                    self._note(claim)
                if not is_next:
                    self._changed.notify_all()
            if is_next:
                hashing.feed(data)
        finally:
            if is_next:
                self.leave(hashing)
            with self._changed:
                self._writing -= 1
                if claim.generation != self.generation:
                    self._changed.notify_all()

    def _hold_next(self, claim: Claim) -> bool:
        """Hold the hashing for the next bytes of a claim where they are the next to be hashed, and nobody does that."""
        is_next = not self.hashing.busy and self.hashing.done == claim.position
        self.hashing.busy = self.hashing.busy or is_next
        return is_next

    def put_front(self, data: memoryview) -> None:
        """Put the first bytes of a file in their place of which nothing is here and that nobody has a claim on.

        Raises InsufficientStorage, StoreFailure.
        """
        self.partial.write(data, 0)
        with self._changed:
            self.partial.held.add(front := Span(0, len(data)))
            if 0 < front.end < self.file.size:
                self.partial.note(front)
        self.hashing.feed(data)

    def give_back(self, claim: Claim) -> None:
        """End a claim; what it has brought is kept. Raises InsufficientStorage, StoreFailure."""
        with self._changed:
            self._claims.remove(claim)
            if claim.generation == self.generation and self.partial.held.size_bytes < self.file.size:
                self._note(claim)

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
            for claim in self._claims:
                claim.end = claim.position
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

    def unhashed(self, hashing: Hashing, stop: threading.Event) -> Span | None:
        """Wait for bytes that are here without a gap and nobody hashes, and hold `hashing` for them.

        Returns an empty span, and holds nothing, once the file is whole; None where `stop` was set or the file was
        started over.
        """
        with self._changed:
            while not stop.is_set() and hashing is self.hashing:
                front = self.partial.held.front
                if not hashing.busy and (front > hashing.done or hashing.whole):
                    hashing.busy = not hashing.whole
                    return Span(hashing.done, front)
                self._changed.wait(_LOOK_S)
            return None

    def leave(self, hashing: Hashing) -> None:
        """Let the next one hash."""
        with self._changed:
            hashing.busy = False
            if hashing.whole or self.partial.held.front > hashing.done:
                self._changed.notify_all()

    def _note(self, claim: Claim) -> None:
        if claim.position > claim.noted:
            self.partial.note(Span(claim.noted, claim.position))
            claim.noted = claim.position
