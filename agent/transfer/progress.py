"""The progress of a download."""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from agent.transfer.traffic import Traffic
from shared.errors import LarderError

_WINDOW_S = 5.0
_SAMPLE_S = 0.25


class Progress:
    """Counters of one download, in bytes. Thread-safe.

    `failure` is the failure that is being retried, or None while bytes arrive. `traffic` totals all downloads.
    """

    def __init__(
        self, total: int = 0, clock: Callable[[], float] = time.monotonic, traffic: Traffic | None = None
    ) -> None:
        self.total, self.traffic = total, traffic or Traffic()
        self.failure: LarderError | None = None
        self._clock, self._done, self._received = clock, 0, 0
        self._samples: deque[tuple[float, int]] = deque([(clock(), 0)])
        self._requests = 0
        self._lock = threading.Lock()

    @property
    def is_requesting(self) -> bool:
        """Whether a request to a source is waiting for its answer."""
        return self._requests > 0

    @contextmanager
    def requesting(self) -> Iterator[None]:
        """Count the block as a request in progress."""
        with self._lock:
            self._requests += 1
        try:
            yield
        finally:
            with self._lock:
                self._requests -= 1

    @property
    def done(self) -> int:
        """Bytes that are here, whether received or found."""
        return self._done

    @property
    def received(self) -> int:
        """Bytes received over the network, including unwanted and discarded ones."""
        return self._received

    def count_received(self, size_bytes: int) -> None:
        """Count bytes received over the network."""
        self._count(size_bytes, size_bytes)

    def count_skipped(self, size_bytes: int) -> None:
        """Count unwanted bytes received over the network."""
        self._count(size_bytes, 0)

    def _count(self, size_bytes: int, wanted_bytes: int) -> None:
        now = self._clock()
        self.traffic.count_received(size_bytes)
        with self._lock:
            self._done += wanted_bytes
            self._received += size_bytes
            self.failure = None
            if now - self._samples[-1][0] >= _SAMPLE_S:
                self._samples.append((now, self._received))
                self._drop_old(now)

    def count_present(self, size_bytes: int) -> None:
        """Count bytes that were already here; negative if they had to be discarded."""
        with self._lock:
            self._done += size_bytes

    def rate(self) -> float:
        """Return the rate over the last five seconds, in bytes per second."""
        now = self._clock()
        with self._lock:
            self._drop_old(now)
            since, then = self._samples[0]
            return (self._received - then) / max(now - since, _SAMPLE_S)

    def _drop_old(self, now: float) -> None:
        """Keep one sample older than the window as the start of the measurement."""
        while len(self._samples) > 1 and now - self._samples[1][0] >= _WINDOW_S:
            self._samples.popleft()
        if now - self._samples[0][0] >= 2 * _WINDOW_S:  # after a long gap, do not average over all of it
            self._samples[0] = (now - _WINDOW_S, self._received)
