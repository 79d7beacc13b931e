"""A download: all files of a manifest, several at a time, verified, into the store."""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from agent.store.download_plan import DownloadPlan
from agent.store.list_size import ListSize
from agent.store.snapshot import ArchiveContents
from agent.store.store import Store
from agent.store.verify import FileHasher, verification
from agent.transfer import access
from agent.transfer.file_download import FileDownloader, split_by_size
from agent.transfer.large_files import LargeFiles
from agent.transfer.progress import Progress
from agent.transfer.rate_limit import RateLimiter
from agent.transfer.receive import DownloadContext
from agent.transfer.small_files import SmallFiles
from agent.transfer.unpacking import Unpacking
from agent.transfer.worker_pool import WorkerPool
from shared.manifest import File
from shared.sources.port import Source
from shared.sources.retry import RetryPolicy, Timing


@dataclass(frozen=True, slots=True)
class FetchResult:
    """The result of a download.

    Attributes:
        blobs: Names of the blobs by path; archives are replaced by their files.
        verified: `digest`, or `size` if a file had no digest.
        received_bytes: Bytes received over the network, including discarded ones.
        unpacked: The files extracted from the model's archives.
    """

    blobs: Mapping[str, str]
    verified: str
    received_bytes: int
    unpacked: tuple[ArchiveContents, ...] = ()


def fetch(
    source: Source,
    plan: DownloadPlan,
    store: Store,
    *,
    progress: Progress,
    stop: threading.Event,
    concurrency: int = 4,
    rate_limiter: RateLimiter | None = None,
    reservation: str = "",
    prove_access: bool = True,
    unpack: bool = True,
    sha256: bool = True,
    accept_files: Callable[[ListSize], None] = lambda _: None,
    policy: RetryPolicy | None = None,
    timing: Timing | None = None,
) -> FetchResult:
    """Download every missing file of the plan into the store; verified bytes are kept even if it fails.

    For each file that this download did not fetch itself, one byte is requested. So bytes that were fetched with other
    credentials are not linked unless the source grants access. If all files have the same readers, only the largest is
    requested.

    Args:
        source: Where the files are.
        plan: The files.
        store: Where they go.
        progress: Counters to update.
        stop: Ends the download within a second once set.
        concurrency: Number of large files downloaded at a time; of small ones, up to four times as many.
        rate_limiter: The shared rate limit.
        reservation: Key of the store's reservation, which shrinks as bytes arrive.
        prove_access: False for repairs of files that are already linked.
        unpack: Whether to unpack archives (`find_archives`).
        sha256: Whether blobs are named by SHA-256. Use False for a store that does not outlive the download: bytes are
            then only hashed with the publisher's algorithm, and a blob without SHA-256 is named by its content key.
        accept_files: Called with the size of the list of files once all archives are listed; raises if that is too
            much.
        policy: How failed attempts are retried.
        timing: Clock and jitter.

    Raises:
        LarderError: The download failed.
        Stopped: `stop` was set.
    """
    timing, halt = timing or Timing(), threading.Event()
    context = DownloadContext(
        source,
        rate_limiter or RateLimiter(),
        progress,
        lambda size: store.space.count_arrived(reservation, size),
        halt,
        timing.clock,
    )
    found = store.incoming.pin(plan)
    needed = plan.contents(without=store.snapshots.find_unpacked(plan))
    missing = [file for file in needed.values() if file.path not in found]
    before = progress.done
    progress.total = progress.total or plan.manifest.size_bytes
    progress.count_present(plan.manifest.size_bytes - sum(file.size for file in missing))
    make_hasher, cached = partial(FileHasher, sha256=sha256), store.incoming.uses_page_cache(plan)
    downloader = FileDownloader(context, plan, store, policy or RetryPolicy(), timing, set(), make_hasher, cached)
    try:
        downloaded = _download(downloader, missing, concurrency, stop)
        if prove_access:
            access.prove_access(downloader, stop)
        blobs = _by_path(plan, {**found, **downloaded})
        unpacked = Unpacking(store, plan, reservation, progress, accept_files).run(blobs, stop) if unpack else ()
    except BaseException:
        progress.count_present(before - progress.done)  # the next attempt will count these bytes again
        raise
    verified = verification(f.digest for f in plan.manifest.files)
    return FetchResult(_with_unpacked(blobs, unpacked), verified, progress.received, unpacked)


def _download(
    downloader: FileDownloader, missing: Iterable[File], concurrency: int, stop: threading.Event
) -> dict[str, str]:
    """Return the blobs of the missing files by path; a file that arrives meanwhile is detected when it is opened."""
    pool = WorkerPool(downloader.context.stop)
    large, small = split_by_size(missing)
    large_files = LargeFiles(downloader, large, concurrency, pool)
    small_files = SmallFiles(downloader, small, pool)
    large_files.tick()
    small_files.start(concurrency)
    pool.wait(stop, large_files.tick)
    return large_files.blobs | small_files.blobs


def _with_unpacked(blobs: Mapping[str, str], unpacked: Sequence[ArchiveContents]) -> dict[str, str]:
    """Return the blobs by path, with the files of each archive instead of the archive."""
    archives = {one.archive.path for one in unpacked}
    kept = {path: blob for path, blob in blobs.items() if path not in archives}
    return kept | {file.path: file.sha256 for one in unpacked for file in one.files}


def _by_path(plan: DownloadPlan, blobs: Mapping[str, str]) -> dict[str, str]:
    """Return the blob of every path whose content is here; `blobs` has one path per content."""
    by_key = {plan.keys[path]: blob for path, blob in blobs.items()}
    return {path: by_key[key] for path, key in plan.keys.items() if key in by_key}
