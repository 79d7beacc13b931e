"""A download: all files of a manifest, several at a time, verified, into the store."""

import threading
from collections import deque
from collections.abc import Container, Mapping
from dataclasses import dataclass
from functools import partial

from agent.store.identity import distinct_files, keys_by_path, without
from agent.store.snapshot import ArchiveContents
from agent.store.store import Store
from agent.store.verify import Check, verification
from agent.transfer.file_download import FileDownloader
from agent.transfer.large_files import LargeFiles
from agent.transfer.plan import SMALL_AT_A_TIME, split_by_size
from agent.transfer.progress import Progress
from agent.transfer.rate_limit import RateLimiter
from agent.transfer.receive import BytePath, Stopped
from agent.transfer.small_files import SmallFiles
from agent.transfer.unpacking import Unpacking
from agent.transfer.worker_pool import WorkerPool
from shared.archives import find_archives
from shared.errors import LarderError
from shared.manifest import File, Manifest
from shared.sources.port import SharedRights, Source
from shared.sources.retry import RetryPolicy, Timing, retry

__all__ = ["FetchResult", "Stopped", "fetch"]

_PROOFS_AT_A_TIME = 8


@dataclass(frozen=True, slots=True)
class FetchResult:
    """The result of a download.

    Attributes:
        blobs: Names of the blobs by path; archives are replaced by their files.
        verified: `digest`, or `size` if a file had no digest.
        moved: Bytes that came over the network.
        unpacked: The files that the model's archives became.
    """

    blobs: Mapping[str, str]
    verified: str
    moved: int
    unpacked: tuple[ArchiveContents, ...] = ()


def fetch(
    source: Source,
    manifest: Manifest,
    store: Store,
    *,
    progress: Progress,
    stop: threading.Event,
    concurrency: int = 4,
    bucket: RateLimiter | None = None,
    reservation: str = "",
    prove_access: bool = True,
    unpack: bool = True,
    sha256: bool = True,
    policy: RetryPolicy | None = None,
    timing: Timing | None = None,
) -> FetchResult:
    """Download every missing file of the manifest into the store; verified bytes stay, however this ends.

    For each file that this download did not bring itself, one byte is requested, so that bytes brought with other
    credentials are not linked without the source's consent. If all files have the same readers, only the largest is
    asked for.

    Args:
        source: Where the files are.
        manifest: The files.
        store: Where they go.
        progress: Counters to update.
        stop: Ends the download within a second once set.
        concurrency: Large files downloaded at a time; of small ones, four times as many.
        bucket: The shared rate limit.
        reservation: Key of the store's reservation, which shrinks as bytes arrive.
        prove_access: False for repairs of files that are already linked.
        unpack: Whether archives (`find_archives`) are unpacked.
        sha256: Whether blobs are named by SHA-256. False suits a store that does not outlive the download: bytes are
            hashed only as their publisher did, and a blob without a SHA-256 is named by its content key.
        policy: How failed attempts are retried.
        timing: Clock and jitter.

    Raises:
        LarderError: The download failed.
        Stopped: `stop` was set.
    """
    found = store.pin(manifest)
    before = progress.done
    progress.total = progress.total or manifest.size_bytes
    progress.find(sum(f.size for f in manifest.files if f.path in found))
    halt = threading.Event()
    timing = timing or Timing()
    path = BytePath(
        source,
        bucket or RateLimiter(),
        progress,
        lambda size: store.arrived(reservation, size),
        halt,
        timing.clock,
    )
    check, cached = partial(Check, sha256=sha256), store.caches(manifest)
    fetching = FileDownloader(path, manifest, store, policy or RetryPolicy(), timing, set(), check, cached)
    missing = _missing(without(manifest, store.find_unpacked(manifest)), found)
    progress.find(sum(f.size for f in manifest.files if f.path not in found) - sum(f.size for f in missing))
    pool = WorkerPool(halt)
    large, small = split_by_size(missing)
    large_lane = LargeFiles(fetching, large, concurrency, pool)
    small_lane = SmallFiles(fetching, small, pool)
    large_lane.tick()
    small_lane.start(SMALL_AT_A_TIME * concurrency)
    try:
        pool.wait(stop, large_lane.tick)
        if prove_access:
            _prove_access(fetching, stop)
        blobs = {**found, **large_lane.blobs, **small_lane.blobs}
        named = _by_path(manifest, blobs)
        unpacked = _unpack(fetching, named, reservation, stop) if unpack else ()
    except BaseException:
        progress.find(before - progress.done)  # the next attempt counts these bytes again
        raise
    for one in unpacked:
        named.pop(one.archive.path, None)
    named |= {f.path: f.sha256 for one in unpacked for f in one.files}
    return FetchResult(named, verification(f.digest for f in manifest.files), progress.received, unpacked)


def _missing(manifest: Manifest, found: Container[str]) -> list[File]:
    """Return one file per missing content; one that arrives meanwhile is noticed when it is opened."""
    return [file for file in distinct_files(manifest).values() if file.path not in found]


def _unpack(
    fetching: FileDownloader, blobs: Mapping[str, str], reservation: str, stop: threading.Event
) -> tuple[ArchiveContents, ...]:
    """Return the files that a model's archives become."""
    archives = find_archives(fetching.manifest.files)
    found = fetching.store.find_unpacked(fetching.manifest)
    unpacking = Unpacking(fetching.store, fetching.manifest, reservation, fetching.path.progress)
    if all(file.path in found for file in archives):
        if found:
            unpacking.check_together(found)
        return tuple(found.values())
    return unpacking.run(blobs, stop)


def _by_path(manifest: Manifest, blobs: Mapping[str, str]) -> dict[str, str]:
    """Return the blob of every path whose content is here, given one path per content."""
    keys = keys_by_path(manifest.uri, manifest.revision, manifest.files)
    by_key = {keys[path]: blob for path, blob in blobs.items()}
    return {path: by_key[key] for path, key in keys.items() if key in by_key}


def _prove_access(fetching: FileDownloader, stop: threading.Event) -> None:
    """Request a byte of each file that this download did not bring; with shared rights, only of the largest.

    That never takes more requests than downloading those files.
    """
    path, halt = fetching.path, threading.Event()
    files = [f for f in distinct_files(fetching.manifest).values() if f.size and f.path not in fetching.brought]
    files.sort(key=lambda f: f.size)
    waiting = deque(files[-1:] if isinstance(path.source, SharedRights) else files)

    def wait(pause_s: float, error: LarderError) -> None:
        path.progress.trouble = error
        if halt.wait(pause_s):
            raise Stopped

    def work() -> None:
        while not halt.is_set():
            try:
                file = waiting.pop()
            except IndexError:
                return
            retry(partial(_ask_for_a_byte, path, file), fetching.policy, fetching.timing, wait)

    pool = WorkerPool(halt)
    for _ in range(min(_PROOFS_AT_A_TIME, len(waiting))):
        pool.start(work)
    pool.wait(stop)


def _ask_for_a_byte(path: BytePath, file: File) -> None:
    try:
        body = path.source.open(file, 0, 1)
    except LarderError as error:
        path.progress.traffic.fail(error)
        raise
    try:
        body.readinto(memoryview(bytearray(1)))
    finally:
        body.close()
