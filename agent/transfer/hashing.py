"""How far a file's bytes are hashed, in order, as they come."""

from agent.store.partials import Partial
from agent.transfer.verify import Check
from agent.transfer.writeback import start_writeback
from shared.manifest import File

_BEHIND_BYTES = 32 * 2**20  # so much is hashed before the kernel is asked to begin with writing it to the disk


class Hashing:
    """The bytes before `done` are hashed; one thread at a time goes on from there, while it holds `busy`."""

    __slots__ = ("_flushed", "_partial", "busy", "check", "done")

    def __init__(self, file: File, partial: Partial) -> None:
        self.check, self.done, self.busy = Check(file), 0, False
        self._partial, self._flushed = partial, 0

    @property
    def whole(self) -> bool:
        """Whether the file is hashed to its end."""
        return self.done == self.check.file.size

    def feed(self, data: memoryview) -> None:
        """Take the next bytes, which are written already."""
        self.check.feed(data)
        self.done += len(data)
        if self.done - self._flushed >= _BEHIND_BYTES:
            start_writeback(self._partial.descriptor, self._flushed, self.done - self._flushed)
            self._flushed = self.done
