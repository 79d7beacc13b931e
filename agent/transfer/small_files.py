"""Small files: many at a time, each fetched, hashed and written by one thread, flushed to disk in batches.

For a nearby server a few threads are fastest, because more would only wait for each other; a thread that finds the
server distant adds another.
"""

import threading
from collections import deque
from collections.abc import Iterable
from contextlib import ExitStack

from agent.store.partials import Partial
from agent.transfer.file_download import FileDownloader
from agent.transfer.worker_pool import WorkerPool
from shared.manifest import File

_BUFFER_BYTES = 2**18
_BATCH = 256
_AT_FIRST = 3
_FAR_S, _IN_A_ROW = 0.003, 8  # with a nearby server, some of this many files take less


class SmallFiles:
    """Downloads small files; `blobs` has the names of the blobs on disk by path."""

    def __init__(self, fetching: FileDownloader, files: Iterable[File], pool: WorkerPool) -> None:
        self.blobs: dict[str, str] = {}
        self._fetching, self._pool = fetching, pool
        self._waiting = deque(files)
        self._batch: list[tuple[File, Partial, str]] = []
        self._most = self._started = self._working = 0
        self._closing = ExitStack()
        self._lock = threading.Lock()

    def start(self, most_at_a_time: int) -> None:
        """Start the first threads."""
        self._most = min(most_at_a_time, len(self._waiting))
        for _ in range(_AT_FIRST):
            self._add_thread()

    def _add_thread(self) -> None:
        with self._lock:
            if self._started == self._most:
                return
            self._started += 1
            self._working += 1
        self._pool.start(self._work)

    def _work(self) -> None:
        buffer, clock, slow = memoryview(bytearray(_BUFFER_BYTES)), self._fetching.timing.clock, 0
        try:
            while not self._fetching.path.stop.is_set():
                try:
                    file = self._waiting.popleft()
                except IndexError:
                    return
                began_s = clock()
                self._fetch(file, buffer)
                slow = slow + 1 if clock() - began_s > _FAR_S else 0
                if slow == _IN_A_ROW:
                    slow = 0
                    self._add_thread()
                self._flush(_BATCH)
        finally:
            with self._lock:
                self._working -= 1
                last = self._working == 0
            if last or self._fetching.path.stop.is_set():
                self._flush(1)

    def _fetch(self, file: File, buffer: memoryview) -> None:
        with ExitStack() as closing:
            # A batch holds its files until they are on disk; before waiting for another download, a thread releases
            # them.
            work = closing.enter_context(self._fetching.opened(file, before_wait=lambda: self._flush(1)))
            if work.blob:
                self.blobs[file.path] = work.blob
                return
            fits = not work.segmented.partial.held.size_bytes and 0 < file.size < len(buffer)
            whole = fits and self._fetching.attempt_front(work, buffer)
            while not whole:
                while segment := work.segmented.take_segment():
                    self._fetching.attempt(work, segment, buffer)
                whole = self._fetching.follow(work, buffer)
            partial, store = work.segmented.partial, self._fetching.store
            if not file.digest:  # nothing could verify a sealed file that was not flushed before a crash
                store.put_blob(partial, work.blob)
                self.blobs[file.path] = work.blob
                return
            store.seal(partial)
            with self._lock:
                self._batch.append((file, partial, work.blob))
                self._closing.push(closing.pop_all())

    def _flush(self, least: int) -> None:
        """Flush the sealed files to disk and make them blobs, if there are at least `least` of them."""
        with self._lock:
            if len(self._batch) < least:
                return
            batch, self._batch = self._batch, []
            closing = self._closing.pop_all()
        with closing:
            self._fetching.store.put_blobs([(partial, blob) for _, partial, blob in batch])
        self.blobs.update((file.path, blob) for file, _, blob in batch)
