"""Hashes a file's bytes in order, as they arrive."""

from agent.linux.writeback import Writeback
from agent.store.partials import Partial
from agent.store.verify import FileHasher


class Hashing:
    """A hash of all bytes before `done`. One thread at a time continues it, and sets `busy` meanwhile.

    Not thread-safe: take and release it under the file's lock. Only the thread that has taken it may call `feed`,
    without the lock.
    """

    __slots__ = ("_writeback", "busy", "done", "hasher")

    def __init__(self, hasher: FileHasher, partial: Partial) -> None:
        self.hasher, self.done, self.busy = hasher, 0, False
        self._writeback = Writeback(partial.descriptor)

    @property
    def whole(self) -> bool:
        """Whether the whole file is hashed."""
        return self.done == self.hasher.file.size

    def take(self, position: int) -> bool:
        """Take the hash if the byte at `position` is next and no other thread has it; return whether it was taken."""
        if self.busy or self.done != position:
            return False
        self.busy = True
        return True

    def feed(self, data: memoryview) -> None:
        """Hash the next bytes, which are already written."""
        self.hasher.feed(data)
        self.done += len(data)
        self._writeback.reach(self.done)
