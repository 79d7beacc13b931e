"""Large files: a few at a time, each with a thread that hashes it, and more connections where that pays off."""

import mmap
import os
import threading
import time
from collections import deque
from collections.abc import Iterable
from contextlib import ExitStack
from functools import partial

from agent.transfer.concurrency import ConcurrencyController
from agent.transfer.file_download import FileDownload, FileDownloader
from agent.transfer.segmented_file import Segment
from agent.transfer.worker_pool import WorkerPool
from shared.manifest import File

_BUFFER_BYTES = 768 * 1024  # larger buffers fall out of the CPU cache between receiving, hashing and writing
_MOST_CONNECTIONS = 16
_ENDING = 2  # files that wait for the disk while others are being received
_LOOK_S = 0.2


class _Open:
    """A file shared by its receivers and its hashing thread, closed when the last one leaves."""

    def __init__(self, work: FileDownload, closing: ExitStack) -> None:
        self.work, self._closing, self._users = work, closing, 1
        self._lock = threading.Lock()

    def enter(self) -> None:
        with self._lock:
            self._users += 1

    def leave(self) -> None:
        with self._lock:
            self._users -= 1
            last = self._users == 0
        if last:
            self._closing.close()


class LargeFiles:
    """Receivers work on segments of the open files; `blobs` has the names of finished blobs by path."""

    def __init__(self, fetching: FileDownloader, files: Iterable[File], at_a_time: int, pool: WorkerPool) -> None:
        self.blobs: dict[str, str] = {}
        self._fetching, self._pool = fetching, pool
        self._waiting, self._at_a_time = deque(files), at_a_time
        first, processors = min(at_a_time, len(self._waiting)), len(os.sched_getaffinity(0))
        self._concurrency_controller = ConcurrencyController(
            first, _MOST_CONNECTIONS, fetching.timing.clock(), processors
        )
        self._open: list[_Open] = []
        self._opening = 0
        self._receivers: set[int] = set()
        self._changed = threading.Condition()

    def tick(self) -> None:
        """Measure the rate and start as many receivers as it justifies."""
        progress = self._fetching.path.progress
        with self._changed:
            if not progress.trouble:  # more connections would not solve that
                missing, now = progress.total - progress.done, self._fetching.timing.clock()
                self._concurrency_controller.observe(progress.received, missing, now, time.process_time())
            absent = (
                set(range(self._concurrency_controller.connections)) - self._receivers if self._unfinished() else set()
            )
            self._receivers |= absent
        for index in absent:
            self._pool.start(partial(self._receive, index))

    def _receive(self, index: int) -> None:
        buffer = memoryview(mmap.mmap(-1, _BUFFER_BYTES))  # aligned to a page
        try:
            while found := self._next(index):
                opened, segment = found
                try:
                    self._fetching.attempt(opened.work, segment, buffer)
                finally:
                    opened.leave()
                    self._tell()
        finally:
            with self._changed:
                self._receivers.discard(index)

    def _next(self, index: int) -> tuple[_Open, Segment] | None:
        """Wait for a segment to fetch; return None when there is none left, or when there are too many receivers."""
        while True:
            with self._changed:
                while True:
                    if self._fetching.path.stop.is_set() or index >= self._concurrency_controller.connections:
                        return None
                    if found := self._take_segment():
                        return found
                    if self._may_open():
                        break
                    if not self._unfinished():
                        return None
                    self._changed.wait(_LOOK_S)
                file = self._waiting.popleft()
                self._opening += 1
            self._begin(file)

    def _take_segment(self) -> tuple[_Open, Segment] | None:
        """Take a file without receivers; if all have some and no other may be opened, take a part of the largest."""
        segment: Segment | None = None
        for opened in self._open:
            if not opened.work.segmented.receivers and (segment := opened.work.segmented.take_segment()):
                opened.enter()
                return opened, segment
        if self._may_open():
            return None
        for opened in sorted(self._open, key=lambda o: -o.work.segmented.missing_bytes):
            if segment := opened.work.segmented.share():
                opened.enter()
                return opened, segment
        return None

    def _may_open(self) -> bool:
        receiving = sum(1 for o in self._open if o.work.segmented.missing_bytes) + self._opening
        return bool(self._waiting) and receiving < self._at_a_time and len(self._open) < self._at_a_time + _ENDING

    def _unfinished(self) -> bool:
        return bool(self._waiting or self._open or self._opening)

    def _begin(self, file: File) -> None:
        closing = ExitStack()
        try:
            work = closing.enter_context(self._fetching.opened(file))
        except BaseException:
            with self._changed:
                self._opening -= 1
            raise
        opened = _Open(work, closing)
        with self._changed:
            self._opening -= 1
            self._open.append(opened)
        self._pool.start(lambda: self._finish(opened))

    def _finish(self, opened: _Open) -> None:
        """Hash the file to its end and turn it into a blob."""
        work, file = opened.work, opened.work.segmented.file
        try:
            if not work.blob:
                buffer = memoryview(bytearray(_BUFFER_BYTES))
                while not self._fetching.follow(work, buffer):
                    self._tell()
                self._fetching.store.put_blob(work.segmented.partial, work.blob)
            self.blobs[file.path] = work.blob
        finally:
            with self._changed:
                self._open.remove(opened)
            opened.leave()
            self._tell()

    def _tell(self) -> None:
        with self._changed:
            self._changed.notify_all()
