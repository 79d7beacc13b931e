"""The in-memory twin of LeaseLock, for a single process."""

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True)
class LockRecord:
    """What the candidates share: who holds the lease, and until when."""

    holder: str = ""
    until: float = 0


@dataclass(frozen=True, slots=True)
class MemoryLock:
    """One candidate's view of a record."""

    record: LockRecord
    identity: str
    lease_s: float
    clock: Callable[[], float] = time.monotonic

    async def acquire(self) -> bool:
        """Take or renew the lease; False while another holds it."""
        held_by_other = self.record.holder not in {"", self.identity}
        if held_by_other and self.clock() < self.record.until:
            return False
        self.record.holder, self.record.until = self.identity, self.clock() + self.lease_s
        return True

    async def release(self) -> None:
        """Let the next candidate in at once, if the lease is still ours."""
        if self.record.holder == self.identity:
            self.record.holder = ""
