"""Small files: many at a time, each fetched, hashed and written by one thread, flushed to disk in batches.

For a nearby server, a few threads are fastest, because more would only wait for each other. A thread that finds that
the server is distant starts another one.
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
_PER_LARGE_FILE = 4  # small files cost round trips, not bandwidth
_AT_FIRST = 3
_FAR_S, _IN_A_ROW = 0.003, 8  # seconds; if this many files in a row take longer, the server is distant


class SmallFiles:
    """Downloads small files; `blobs` has the names of the blobs on disk by path."""

    def __init__(self, downloader: FileDownloader, files: Iterable[File], pool: WorkerPool) -> None:
        self.blobs: dict[str, str] = {}
        self._downloader, self._pool = downloader, pool
        self._pending = deque(files)
        self._batch: list[tuple[File, Partial, str]] = []
        self._most = self._started = self._working = 0
        self._closing = ExitStack()
        self._lock = threading.Lock()

    def start(self, concurrency: int) -> None:
        """Start the first threads; there may be several for each large file that is downloaded at a time."""
        self._most = min(_PER_LARGE_FILE * concurrency, len(self._pending))
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
        buffer, clock, slow = memoryview(bytearray(_BUFFER_BYTES)), self._downloader.timing.clock, 0
        try:
            while not self._downloader.context.stop.is_set():
                try:
                    file = self._pending.popleft()
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
            if last or self._downloader.context.stop.is_set():
                self._flush(1)

    def _fetch(self, file: File, buffer: memoryview) -> None:
        with ExitStack() as closing:
            # A batch locks its files until they are on disk, so a thread flushes its batch before it waits for another
            # download.
            download = closing.enter_context(self._downloader.opened(file, before_wait=lambda: self._flush(1)))
            if download.blob:
                self.blobs[file.path] = download.blob
                return
            fits = not download.segmented.partial.held.size_bytes and 0 < file.size < len(buffer)
            whole = fits and self._downloader.fetch_whole(download, buffer)
            while not whole:
                while segment := download.segmented.take_segment():
                    self._downloader.fetch_segment(download, segment, buffer)
                whole = self._downloader.complete(download, buffer)
            partial, store = download.segmented.partial, self._downloader.store
            if not file.digest:  # nothing could verify a sealed file that was not flushed before a crash
                store.incoming.put_blob(partial, download.blob)
                self.blobs[file.path] = download.blob
                return
            store.incoming.seal(partial)
            with self._lock:
                self._batch.append((file, partial, download.blob))
                self._closing.push(closing.pop_all())

    def _flush(self, least: int) -> None:
        """Flush the sealed files to disk and make them blobs, if there are at least `least` of them."""
        with self._lock:
            if len(self._batch) < least:
                return
            batch, self._batch = self._batch, []
            closing = self._closing.pop_all()
        with closing:
            self._downloader.store.incoming.put_blobs([(partial, blob) for _, partial, blob in batch])
        self.blobs.update((file.path, blob) for file, _, blob in batch)
