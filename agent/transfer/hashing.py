"""Hashes a file's bytes in order, as they arrive."""

from agent.linux.writeback import Writeback
from agent.store.partials import Partial
from agent.store.verify import Check


class Hashing:
    """The bytes before `done` are hashed; one thread at a time continues, while `busy` is set."""

    __slots__ = ("_writeback", "busy", "check", "done")

    def __init__(self, check: Check, partial: Partial) -> None:
        self.check, self.done, self.busy = check, 0, False
        self._writeback = Writeback(partial.descriptor)

    @property
    def whole(self) -> bool:
        """Whether the whole file is hashed."""
        return self.done == self.check.file.size

    def feed(self, data: memoryview) -> None:
        """Hash the next bytes, which are already written."""
        self.check.feed(data)
        self.done += len(data)
        self._writeback.reach(self.done)
