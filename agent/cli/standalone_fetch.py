"""A fetch without a cluster: resolve, download what is missing, put it in place."""

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from agent.cli.layouts import FetchLayout
from agent.cli.target import (
    WORK_DIRECTORY,
    check_manifest,
    check_work_directory,
    is_up_to_date,
    place_files,
    remove_work_directory,
)
from agent.store.content_keys import keys_by_path
from agent.store.download_plan import DownloadPlan
from agent.store.snapshot import source_file
from agent.store.store import Store
from agent.store.verify import verification
from agent.transfer.engine import fetch
from agent.transfer.progress import Progress
from agent.transfer.rate_limit import RateLimiter
from agent.transfer.receive import Stopped
from shared.archives import find_archives
from shared.errors import LarderError, PickleRefused, SourceChanged
from shared.manifest import File, Manifest
from shared.safe_files.refuse import refuse_pickles
from shared.sources.for_commands import POLICY
from shared.sources.port import Source
from shared.sources.retry import Timing, retry

_MAX_CHANGES = 2


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was fetched: the full manifest, how it was verified, and the bytes received over the network."""

    manifest: Manifest
    verified: str
    received_bytes: int


@dataclass(frozen=True, slots=True)
class _Listing:
    """The files of the source, the names of their contents by path, and which of them must be fetched."""

    manifest: Manifest
    keys: Mapping[str, str]
    missing: tuple[File, ...]
    has_archives: bool


@dataclass(frozen=True, slots=True)
class StandaloneFetch:
    """One fetch; call `run` once, holding the lock on the layout's target.

    Args:
        source: Where the files are.
        layout: Where they go.
        concurrency: Large files downloaded at a time.
        progress: Counters to update.
        stop: Ends the fetch within a second once set.
        rate_limiter: Limits the rate, if given.
        revision: The revision that the source must have, if given.
    """

    source: Source
    layout: FetchLayout
    concurrency: int
    progress: Progress
    stop: threading.Event
    rate_limiter: RateLimiter | None = None
    revision: str = ""

    def run(self) -> Outcome:
        """Fill the target, leaving complete and correct files as they are. Raises LarderError, Stopped.

        A source that changes meanwhile is listed again, and its new files are fetched.
        """
        check_work_directory(self.layout.target)
        listing = self._list()
        # One store for all attempts: its locks make the next attempt wait for threads of the previous one that still
        # write a file to the disk.
        with closing(Store.open(self.layout.target / WORK_DIRECTORY)) as store:
            store.recover()
            outcome = self._fetch_until_unchanged(listing, store)
        remove_work_directory(self.layout.target)
        return outcome

    def _fetch_until_unchanged(self, listing: _Listing, store: Store) -> Outcome:
        for _ in range(_MAX_CHANGES):
            try:
                return self._fetch(listing, store)
            except SourceChanged as error:
                self._wait(POLICY.first_s, error)
                listing = self._list()
        return self._fetch(listing, store)

    def _list(self) -> _Listing:
        manifest = resolve_revision(self.source, self.revision, self.progress, self._wait)
        archives = {f.path for f in find_archives(manifest.files)}  # what earlier runs unpacked is not recorded
        keys = keys_by_path(manifest.uri, manifest.revision, manifest.files)
        missing = tuple(f for f in manifest.files if f.path in archives or not self._is_up_to_date(f, keys[f.path]))
        return _Listing(manifest, keys, missing, has_archives=bool(archives))

    def _fetch(self, listing: _Listing, store: Store) -> Outcome:
        manifest = listing.manifest
        plan = DownloadPlan(Manifest(manifest.uri, manifest.revision, listing.missing))
        store.space.reserve("fetch", store.space.missing_bytes(plan), 0, 0)
        result = fetch(
            self.source,
            plan,
            store,
            progress=self.progress,
            stop=self.stop,
            concurrency=self.concurrency,
            rate_limiter=self.rate_limiter,
            reservation="fetch",
            prove_access=False,
            unpack=listing.has_archives,
            sha256=False,
            policy=POLICY,
        )
        verified = verification(f.digest for f in manifest.files)
        if result.unpacked:
            archives = {one.archive.path for one in result.unpacked}
            kept = (file for file in manifest.files if file.path not in archives)
            members = (source_file(file) for one in result.unpacked for file in one.files)
            manifest = replace(manifest, files=(*kept, *members))
            check_manifest(manifest)
        blobs = {path: store.blobs.path(blob) for path, blob in result.blobs.items()}
        places = {f.path: self.layout.path_of(f, plan.keys.get(f.path, "")) for f in manifest.files}
        if not manifest.allow_pickle:
            present = {path: self.layout.resolve(place) for path, place in places.items()}
            refuse_fetched_pickles({**present, **blobs}, manifest.uri, lambda: store.unfinished.discard(plan))
        fetched = {places[path]: blob for path, blob in blobs.items()}
        unnamed = {places[f.path]: plan.keys[f.path] for f in listing.missing if f.path in blobs and not f.digest}
        place_files(self.layout.target, fetched, unnamed, time.time_ns())
        self.layout.finish(listing.manifest, listing.keys)
        return Outcome(manifest, verified, result.received_bytes)

    def _is_up_to_date(self, file: File, key: str) -> bool:
        if self.stop.is_set():
            raise Stopped
        path = self.layout.resolve(self.layout.path_of(file, key))
        return is_up_to_date(path, file, key, self.progress.count_present)

    def _wait(self, pause_s: float, error: LarderError) -> None:
        wait_or_stop(pause_s, error, self.progress, self.stop)


def resolve_revision(
    source: Source, revision: str, progress: Progress, wait: Callable[[float, LarderError], None]
) -> Manifest:
    """List the files of the source, with retries, and start counting them. Raises SourceChanged, UnsafePath."""
    with progress.requesting():
        manifest = retry(source.resolve, POLICY, Timing(), wait)
    if revision not in ("", manifest.revision):
        raise SourceChanged(
            f"{manifest.uri} is now at revision {manifest.revision}, not at {revision}; resolve it again"
        )
    check_manifest(manifest)
    progress.count_present(-progress.done)
    progress.failure = None
    progress.total = manifest.size_bytes
    return manifest


def wait_or_stop(pause_s: float, error: LarderError, progress: Progress, stop: threading.Event) -> None:
    """Wait before the next attempt, showing what failed. Raises Stopped."""
    progress.failure = error
    if stop.wait(pause_s):
        raise Stopped from error


def refuse_fetched_pickles(places: Mapping[str, Path], uri: str, discard: Callable[[], None]) -> None:
    """Check the fetched and the existing files; if one may be a pickle, keep nothing that was fetched."""
    try:
        refuse_pickles(places, uri)
    except PickleRefused:
        discard()
        raise
