"""The threads of one download, and how they end together."""

import threading
from collections import deque
from collections.abc import Callable

from agent.transfer.plan import SMALL_BYTES, Lane
from agent.transfer.receive import Stopped
from shared.manifest import File

_BUFFER_BYTES = 2**20
_SMALL_BUFFER_BYTES = 2**18
_SPARE_THREADS = 2  # while one waits for the disk to sync its file, another receives
_GRACE_S = 0.5
_LOOK_S = 0.1

FetchFile = Callable[[File, memoryview, threading.Semaphore], str]


class Crew:
    """Threads that work off lanes of files. The first failure ends them all; what they finished is in `digests`.

    One that hangs in a read when the crew is dismissed is left behind: it ends with its read, writes nothing more, and
    holds its file until then.
    """

    def __init__(self, fetch_file: FetchFile, halt: threading.Event) -> None:
        self.digests: dict[str, str] = {}
        self._fetch_file, self._halt = fetch_file, halt
        self._failure: BaseException | None = None
        self._working = 0
        self._lock = threading.Lock()
        self._news = threading.Event()

    def man(self, lane: Lane) -> None:
        """Start the threads of a lane."""
        queue, slots = deque(lane.files), threading.Semaphore(lane.width)
        room = _BUFFER_BYTES if lane.files[0].size > SMALL_BYTES else _SMALL_BUFFER_BYTES
        for _ in range(min(len(lane.files), lane.width + _SPARE_THREADS)):
            self.start(lambda: self._work_off(queue, slots, memoryview(bytearray(room))))

    def start(self, work: Callable[[], None]) -> None:
        """Run one more piece of work on a thread of its own."""
        with self._lock:
            self._working += 1
        # A daemon: a program that ends must not wait for a server that hangs.
        threading.Thread(target=self._run, args=(work,), name="larder-fetch", daemon=True).start()

    def wait(self, stop: threading.Event) -> None:
        """Return when all is done; raise the first failure, or Stopped where `stop` ended it."""
        while self._working and not self._failure and not stop.is_set():
            self._news.wait(_LOOK_S)  # a look now and then: `stop` is the caller's and does not wake us
            self._news.clear()
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
            self._news.wait(_LOOK_S)
            self._news.clear()

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Stopped:
            pass  # `wait` knows why
        except BaseException as error:  # noqa: BLE001 - it is raised again in the caller's thread
            self._failure = self._failure or error
        finally:
            with self._lock:
                self._working -= 1
            self._news.set()

    def _work_off(self, queue: deque[File], slots: threading.Semaphore, buffer: memoryview) -> None:
        while not self._halt.is_set():
            try:
                file = queue.popleft()
            except IndexError:
                return
            self.digests[file.path] = self._fetch_file(file, buffer, slots)
