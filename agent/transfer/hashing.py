"""How far a file's bytes are hashed, in order, as they come."""

from agent.linux.writeback import Writeback
from agent.store.partials import Partial
from agent.store.verify import Check


class Hashing:
    """The bytes before `done` are hashed; one thread at a time goes on from there, while it holds `busy`."""

    __slots__ = ("_writeback", "busy", "check", "done")

    def __init__(self, check: Check, partial: Partial) -> None:
        self.check, self.done, self.busy = check, 0, False
        self._writeback = Writeback(partial.descriptor)

    @property
    def whole(self) -> bool:
        """Whether the file is hashed to its end."""
        return self.done == self.check.file.size

    def feed(self, data: memoryview) -> None:
        """Take the next bytes, which are written already."""
        self.check.feed(data)
        self.done += len(data)
        self._writeback.reach(self.done)
