"""A fetch without a cluster: resolve, fetch what is missing, place it."""

import shutil
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from agent.cli.target import WORK_DIRECTORY, check_manifest, is_right, place_files
from agent.store.disk import translated
from agent.store.snapshot import verification
from agent.store.store import Store
from agent.transfer.engine import Stopped, fetch
from agent.transfer.progress import Progress
from agent.transfer.retry import RetryPolicy, Timing, pause_before_retry
from shared.errors import LarderError
from shared.manifest import File, Manifest
from shared.sources.port import Source

_POLICY = RetryPolicy(attempts=6, patience_s=45.0, first_s=0.5, longest_s=5.0)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was fetched: the whole manifest, how it was verified, and how many bytes the network brought."""

    manifest: Manifest
    verified: str
    moved: int


@dataclass(frozen=True, slots=True)
class FetchJob:
    """Everything that one fetch needs; `run` is called once, the caller holds the lock on `target`."""

    source: Source
    target: Path
    concurrency: int
    progress: Progress
    stop: threading.Event

    def run(self) -> Outcome:
        """Fill the target; what is complete and right there is left as it is. Raises LarderError, Stopped."""
        manifest = self._resolve()
        check_manifest(manifest)
        self.progress.total = manifest.size_bytes
        missing = [f for f in manifest.files if not self._is_right(f)]
        outcome = self._fetch(manifest, missing)
        with translated(f"removing {self.target / WORK_DIRECTORY}"):
            shutil.rmtree(self.target / WORK_DIRECTORY)
        return outcome

    def _fetch(self, manifest: Manifest, missing: list[File]) -> Outcome:
        part = Manifest(manifest.uri, manifest.revision, tuple(missing))
        store = Store.open(self.target / WORK_DIRECTORY)
        try:
            store.sweep()
            store.reserve("fetch", store.missing_bytes(part), 0, 0)
            result = fetch(
                self.source,
                part,
                store,
                progress=self.progress,
                stop=self.stop,
                concurrency=self.concurrency,
                reservation="fetch",
                prove_access=False,
                policy=_POLICY,
            )
            place_files(
                self.target, {path: store.blob_path(sha256) for path, sha256 in result.sha256.items()}, time.time_ns()
            )
        finally:
            store.close()
        return Outcome(manifest, verification(f.digest for f in manifest.files), result.moved)

    def _is_right(self, file: File) -> bool:
        if self.stop.is_set():
            raise Stopped
        return is_right(self.target, file, self.progress.find)

    def _resolve(self) -> Manifest:
        """List the files of the source, patiently."""
        timing, failures = Timing(), 0
        since = timing.clock()
        while True:
            try:
                return self.source.resolve()
            except LarderError as error:
                failures += 1
                idle_s = timing.clock() - since
                pause_s = pause_before_retry(_POLICY, error, failures, idle_s, timing.random())
                if pause_s is None:
                    raise
                self.progress.trouble = error
                if self.stop.wait(pause_s):
                    raise Stopped from error
