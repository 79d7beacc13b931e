"""Checks that the source grants access to files that were already here."""

import threading
from collections import deque
from functools import partial

from agent.transfer.file_download import FileDownloader
from agent.transfer.receive import DownloadContext, Stopped
from agent.transfer.worker_pool import WorkerPool
from shared.errors import LarderError
from shared.manifest import File
from shared.sources.port import SharedRights
from shared.sources.retry import retry

_AT_A_TIME = 8


def prove_access(downloader: FileDownloader, stop: threading.Event) -> None:
    """Request one byte of each file that this download did not deliver, or only of the largest if all share rights.

    This never takes more requests than downloading those files. Raises LarderError, Stopped.
    """
    context, halt = downloader.context, threading.Event()
    files = [f for f in downloader.plan.contents().values() if f.size and f.path not in downloader.delivered]
    files.sort(key=lambda f: f.size)
    pending = deque(files[-1:] if isinstance(context.source, SharedRights) else files)

    def wait(pause_s: float, error: LarderError) -> None:
        context.progress.failure = error
        if halt.wait(pause_s):
            raise Stopped

    def work() -> None:
        while not halt.is_set():
            try:
                file = pending.pop()
            except IndexError:
                return
            retry(partial(_request_byte, context, file), downloader.policy, downloader.timing, wait)

    pool = WorkerPool(halt)
    for _ in range(min(_AT_A_TIME, len(pending))):
        pool.start(work)
    pool.wait(stop)


def _request_byte(context: DownloadContext, file: File) -> None:
    try:
        body = context.source.open(file, 0, 1)
    except LarderError as error:
        context.progress.traffic.count_if_rate_limited(error)
        raise
    try:
        body.readinto(memoryview(bytearray(1)))
    finally:
        body.close()
    context.progress.failure = None
