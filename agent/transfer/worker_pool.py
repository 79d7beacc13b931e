"""The threads of one download, which end together."""

import threading
from collections.abc import Callable

from agent.transfer.receive import Stopped
from shared.daemon_thread import start_daemon_thread

_GRACE_S = 0.5
_LOOK_S = 0.1


class WorkerPool:
    """Runs threads; the first failure ends them all.

    If a thread hangs in a read when the pool ends, the pool does not wait for it. The thread writes nothing more, and
    ends and releases its file once the read returns.
    """

    def __init__(self, halt: threading.Event) -> None:
        self._halt = halt
        self._failure: BaseException | None = None
        self._working = 0
        self._lock = threading.Lock()
        self._changed = threading.Event()

    def start(self, work: Callable[[], None]) -> None:
        """Run a function in its own thread."""
        with self._lock:
            self._working += 1
        start_daemon_thread(lambda: self._run(work), "larder-fetch")

    def wait(self, stop: threading.Event, tick: Callable[[], None] = lambda: None) -> None:
        """Wait for all threads; raise the first failure, or Stopped if `stop` ended them. `tick` is called often."""
        while self._working and not self._failure and not stop.is_set():
            self._changed.wait(_LOOK_S)  # wake regularly: setting the caller's `stop` does not wake us
            self._changed.clear()
            tick()
        unfinished = self._working > 0
        self._halt.set()
        self._let_end()
        if self._failure:
            raise self._failure
        if unfinished:
            raise Stopped

    def _let_end(self) -> None:
        for _ in range(round(_GRACE_S / _LOOK_S)):
            if not self._working:
                return
            self._changed.wait(_LOOK_S)
            self._changed.clear()

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Stopped:
            pass  # `wait` knows the reason
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            self._failure = self._failure or error
        finally:
            with self._lock:
                self._working -= 1
            self._changed.set()
