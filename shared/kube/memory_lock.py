"""The in-memory twin of LeaseLock, for a single process."""

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True)
class LockRecord:
    """The shared state of the candidates: who holds the lease, and until when."""

    holder: str = ""
    until: float = 0


@dataclass(frozen=True, slots=True)
class MemoryLock:
    """One candidate for a record."""

    record: LockRecord
    identity: str
    lease_s: float
    clock: Callable[[], float] = time.monotonic

    async def acquire(self) -> bool:
        """Acquire or renew the lease; False while another holds it."""
        held_by_other = self.record.holder not in {"", self.identity}
        if held_by_other and self.clock() < self.record.until:
            return False
        self.record.holder, self.record.until = self.identity, self.clock() + self.lease_s
        return True

    async def release(self) -> None:
        """Release the lease, if still ours, so that the next candidate can take it at once."""
        if self.record.holder == self.identity:
            self.record.holder = ""
