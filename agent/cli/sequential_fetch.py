"""Fetches into a volume that can neither link nor rename files, such as a bucket mounted by Mountpoint for Amazon S3.

Each file is written under its own name, once, from its first byte to its last. A file that a killed pod left
unfinished is removed and written again. Nobody may read the directory before the download has ended.
"""

import errno
import os
import queue
import threading
import time
from collections.abc import Iterable
from concurrent.futures import FIRST_EXCEPTION, wait
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from agent.cli.standalone_fetch import Outcome, refuse_fetched_pickles, resolve_revision, wait_or_stop
from agent.cli.target import is_up_to_date, safe_path
from agent.store.disk import translated
from agent.store.verify import FileHasher, verification
from agent.transfer.progress import Progress
from agent.transfer.rate_limit import RateLimiter
from agent.transfer.receive import DownloadContext, Stopped, receive_in_order
from agent.transfer.retry_budget import SharedRetryBudget
from shared.archives import find_archives
from shared.daemon_thread import start_daemon_thread
from shared.errors import InvalidURI, LarderError
from shared.manifest import File, Manifest
from shared.sources.for_commands import POLICY
from shared.sources.port import Source
from shared.sources.retry import Timing

PROBE = ".larder-probe"
_CANNOT_LINK = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL)
_BUFFER_BYTES = 2**20
_POLL_S = 0.2


def can_link(directory: Path) -> bool:
    """Return whether a directory supports hard links, after creating it if necessary. Raises StoreFailure."""
    probe, link = directory / PROBE, directory / f"{PROBE}-link"
    with translated(f"writing to {directory}"):
        directory.mkdir(parents=True, exist_ok=True)
        for path in (link, probe):
            path.unlink(missing_ok=True)
        probe.touch()
        try:
            link.hardlink_to(probe)
        except OSError as error:
            if error.errno not in _CANNOT_LINK:
                raise
            return False
        else:
            return True
        finally:
            for path in (link, probe):
                path.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class SequentialFetch:
    """One fetch into such a volume; call `run` once.

    Args:
        source: Where the files are.
        target: The directory for them.
        concurrency: Files written at a time.
        progress: Counters to update.
        stop: Ends the download within a second once set.
        rate_limiter: Limits the rate.
        revision: The revision that the source must have, if given.
    """

    source: Source
    target: Path
    concurrency: int
    progress: Progress
    stop: threading.Event
    rate_limiter: RateLimiter
    revision: str = ""
    _ended: threading.Event = field(default_factory=threading.Event, init=False)

    def run(self) -> Outcome:
        """Write every file that is not there yet, complete and correct. Raises LarderError, Stopped."""
        manifest = resolve_revision(self.source, self.revision, self.progress, self._wait)
        if archives := find_archives(manifest.files):
            raise InvalidURI(
                f"{manifest.uri} is the archive {archives[0].path!r}, which cannot be unpacked on a volume without "
                "hard links; name a source with the files themselves, or use another storage class"
            )
        self._write_all(manifest)
        if not manifest.allow_pickle:
            places = {file.path: safe_path(self.target, file.path) for file in manifest.files}
            refuse_fetched_pickles(places, manifest.uri, lambda: self._remove(places.values()))
        return Outcome(manifest, verification(f.digest for f in manifest.files), self.progress.received)

    def _write_all(self, manifest: Manifest) -> None:
        pending: queue.SimpleQueue[File] = queue.SimpleQueue()
        for file in sorted(manifest.files, key=lambda one: one.size, reverse=True):
            pending.put(file)
        count = min(self.concurrency, len(manifest.files))
        running = {start_daemon_thread(lambda: self._work(pending), f"larder-write-{n}") for n in range(count)}
        try:
            while running:
                done, running = wait(running, _POLL_S, FIRST_EXCEPTION)
                for one in done:
                    one.result()
                if self.stop.is_set():
                    raise Stopped
        finally:
            self._ended.set()

    def _work(self, pending: "queue.SimpleQueue[File]") -> None:
        buffer = memoryview(bytearray(_BUFFER_BYTES))
        with suppress(queue.Empty):
            while not self._ended.is_set():
                self._ensure(pending.get_nowait(), buffer)

    def _ensure(self, file: File, buffer: memoryview) -> None:
        """Write a file unless it is there and has the publisher's digest."""
        path = safe_path(self.target, file.path)
        if file.digest and is_up_to_date(path, file, "", self.progress.count_present):
            return
        written = _WrittenFile(path, FileHasher(file, sha256=False))
        try:
            with written:
                self._receive(file, written, buffer)
            written.hasher.verify()
        except BaseException:
            self.progress.count_present(-written.size_bytes)
            with suppress(OSError):  # the next attempt removes it
                path.unlink(missing_ok=True)
            raise

    def _receive(self, file: File, written: "_WrittenFile", buffer: memoryview) -> None:
        """Receive a file; after a failure, continue where it stopped."""
        context = DownloadContext(
            self.source, self.rate_limiter, self.progress, lambda _: None, self._ended, time.monotonic
        )
        budget = SharedRetryBudget(POLICY, Timing())
        while True:
            before = written.size_bytes
            try:
                receive_in_order(context, file, before, written.append, buffer)
            except LarderError as error:
                arrived = written.size_bytes
                self._wait(budget.pause(error, file.size - arrived, arrived - before), error)
            else:
                return

    def _wait(self, pause_s: float, error: LarderError) -> None:
        wait_or_stop(pause_s, error, self.progress, self.stop)

    def _remove(self, paths: Iterable[Path]) -> None:
        for path in paths:
            with translated(f"removing {path}"):
                path.unlink(missing_ok=True)


class _WrittenFile:
    """A file written from start to end; use as a context manager. On a mounted bucket, it exists once closed."""

    def __init__(self, path: Path, hasher: FileHasher) -> None:
        self.hasher, self.size_bytes = hasher, 0
        self._path, self._descriptor = path, -1

    def __enter__(self) -> None:
        """Create it, in place of any other file. Raises StoreFailure."""
        with translated(f"creating {self._path}"):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.unlink(missing_ok=True)
            self._descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)

    def append(self, chunk: memoryview) -> None:
        """Write and hash the next bytes. Raises InsufficientStorage, StoreFailure."""
        done = 0
        with translated(f"writing {self._path}"):
            while done < len(chunk):
                done += os.write(self._descriptor, chunk[done:])
        self.hasher.feed(chunk)
        self.size_bytes += len(chunk)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Close it. Raises StoreFailure if the volume then has no complete file."""
        try:
            with translated(f"completing {self._path}"):
                os.close(self._descriptor)
        except LarderError:
            if error is None:
                raise
