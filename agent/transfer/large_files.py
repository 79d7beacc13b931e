"""Large files: a few at a time, each with a thread that hashes it, and more connections if they help."""

import mmap
import os
import threading
import time
from collections import deque
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial

from agent.transfer.concurrency import ConcurrencyController
from agent.transfer.file_download import FileDownload, FileDownloader
from agent.transfer.segmented_file import Segment
from agent.transfer.worker_pool import WorkerPool
from shared.manifest import File

_BUFFER_BYTES = 768 * 1024  # a larger buffer would not stay in the CPU cache between receiving, hashing and writing
_MAX_CONNECTIONS = 16
_ENDING = 2  # files that wait for the disk while others are being received
_LOOK_S = 0.2


class _OpenFile:
    """A file shared by its receivers and its hashing thread, closed when the last one leaves."""

    def __init__(self, download: FileDownload, closing: ExitStack) -> None:
        self.download, self.segmented = download, download.segmented
        self._closing, self._users, self._lock = closing, 1, threading.Lock()

    def enter(self) -> None:
        with self._lock:
            self._users += 1

    def leave(self) -> None:
        with self._lock:
            self._users -= 1
            last = self._users == 0
        if last:
            self._closing.close()


@dataclass(frozen=True, slots=True)
class _Fetch:
    file: _OpenFile
    segment: Segment


@dataclass(frozen=True, slots=True)
class _Open:
    file: File


class _Idle(Enum):
    WAIT = auto()
    LEAVE = auto()


class LargeFiles:
    """Receivers work on segments of the open files; `blobs` has the names of finished blobs by path.

    The stages of a file, and the threads that work on it:

        pending ──▶ open: bytes are missing ──▶ open: all bytes are here ──▶ blob
                    receivers                   its hashing thread
                    its hashing thread
                    at most `at_a_time`         at most `_ENDING` more

    Receivers are numbered from 0. If the ConcurrencyController wants fewer, the surplus leave after their segment; if
    it wants more, `tick` starts them. `_next_step` decides what each one does.
    """

    def __init__(self, downloader: FileDownloader, files: Iterable[File], at_a_time: int, pool: WorkerPool) -> None:
        self.blobs: dict[str, str] = {}
        self._downloader, self._stop, self._pool = downloader, downloader.context.stop, pool
        self._pending, self._at_a_time = deque(files), at_a_time
        first, processors = min(at_a_time, len(self._pending)), len(os.sched_getaffinity(0))
        self._concurrency = ConcurrencyController(first, _MAX_CONNECTIONS, downloader.timing.clock(), processors)
        self._opening = 0
        self._open: list[_OpenFile] = []
        self._receivers: set[int] = set()
        self._changed = threading.Condition()

    def tick(self) -> None:
        """Measure the rate and start as many receivers as it justifies."""
        progress = self._downloader.context.progress
        with self._changed:
            if not progress.failure:  # more connections would not help
                missing, now = progress.total - progress.done, self._downloader.timing.clock()
                self._concurrency.observe(progress.received, missing, now, time.process_time())
            wanted = set(range(self._concurrency.connections)) if self._is_unfinished() else set[int]()
            absent = wanted - self._receivers
            self._receivers |= absent
        for index in absent:
            self._pool.start(partial(self._receive, index))

    def _receive(self, index: int) -> None:
        buffer = memoryview(mmap.mmap(-1, _BUFFER_BYTES))  # aligned to a page
        try:
            while step := self._wait_for_step(index):
                match step:
                    case _Open(file):
                        self._open_file(file)
                    case _Fetch(file, segment):
                        try:
                            self._downloader.fetch_segment(file.download, segment, buffer)
                        finally:
                            file.leave()
                            self._notify()
        finally:
            with self._changed:
                self._receivers.discard(index)

    def _wait_for_step(self, index: int) -> _Fetch | _Open | None:
        """Return the receiver's next step, or None if it leaves."""
        with self._changed:
            while (step := self._next_step(index)) is _Idle.WAIT:
                self._changed.wait(_LOOK_S)  # setting `stop` does not wake us
            return None if step is _Idle.LEAVE else step

    def _next_step(self, index: int) -> _Fetch | _Open | _Idle:
        """Decide a receiver's next step, and take the segment or file for it. The caller holds the lock."""
        if self._stop.is_set() or index >= self._concurrency.connections:
            return _Idle.LEAVE
        for file in self._open:
            if not file.segmented.receivers and (segment := file.segmented.take_segment()):
                file.enter()
                return _Fetch(file, segment)
        if self._may_open():
            self._opening += 1
            return _Open(self._pending.popleft())
        for file in sorted(self._open, key=lambda file: -file.segmented.missing_bytes):
            if segment := file.segmented.split_segment():
                file.enter()
                return _Fetch(file, segment)
        return _Idle.WAIT if self._is_unfinished() else _Idle.LEAVE

    def _may_open(self) -> bool:
        incomplete = sum(1 for file in self._open if file.segmented.missing_bytes) + self._opening
        return bool(self._pending) and incomplete < self._at_a_time and len(self._open) < self._at_a_time + _ENDING

    def _is_unfinished(self) -> bool:
        return bool(self._pending or self._open or self._opening)

    def _open_file(self, file: File) -> None:
        closing = ExitStack()
        try:
            download = closing.enter_context(self._downloader.opened(file))
        except BaseException:
            with self._changed:
                self._opening -= 1
            raise
        opened = _OpenFile(download, closing)
        with self._changed:
            self._opening -= 1
            self._open.append(opened)
        self._pool.start(partial(self._complete, opened))

    def _complete(self, file: _OpenFile) -> None:
        """Hash the file to its end and turn it into a blob."""
        download = file.download
        try:
            if not download.blob:
                buffer = memoryview(bytearray(_BUFFER_BYTES))
                while not self._downloader.complete(download, buffer):
                    self._notify()
                self._downloader.store.incoming.put_blob(file.segmented.partial, download.blob)
            self.blobs[file.segmented.file.path] = download.blob
        finally:
            with self._changed:
                self._open.remove(file)
            file.leave()
            self._notify()

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()
