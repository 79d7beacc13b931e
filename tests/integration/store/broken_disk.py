"""A disk that skips one sync."""

import threading

from agent.store.disk import RealDisk


class BrokenDisk(RealDisk):
    """Calls `fail` instead of the sync with this number; 0 means never."""

    def __init__(self, left: int = 0) -> None:
        self.left, self._lock = left, threading.Lock()

    def fail(self) -> None:
        """Fail instead of the sync."""
        raise NotImplementedError

    def fsync(self, descriptor: int) -> None:
        self._count()
        super().fsync(descriptor)

    def sync_all(self, descriptor: int) -> None:
        self._count()
        super().sync_all(descriptor)

    def _count(self) -> None:
        with self._lock:
            self.left -= 1
            if self.left == 0:
                self.fail()
