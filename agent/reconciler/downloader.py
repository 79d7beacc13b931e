"""One download from start to commit: the blocking part, which runs in a thread."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from agent.reconciler.file_lists import FileLists
from agent.reconciler.reservations import reservation_of
from agent.store.download_plan import DownloadPlan
from agent.store.snapshot import Snapshot
from agent.store.store import Store
from agent.transfer.engine import FetchResult, fetch
from agent.transfer.progress import Progress
from agent.transfer.rate_limit import RateLimiter
from shared.api.model_node import Entry
from shared.api.wire import CredentialsResponse
from shared.errors import AuthDenied, PickleRefused, TooManyFilesOnNode
from shared.sources.port import ANONYMOUS, Credentials
from shared.sources.schemes import open_source
from shared.sources.settings import SourceSettings
from shared.uri.model_uri import parse_uri


@dataclass(frozen=True, slots=True)
class Downloader:
    """Downloads entries into the store under one shared rate limit."""

    store: Store
    sources: SourceSettings
    rate_limiter: RateLimiter
    connections: int
    file_lists: FileLists = field(default_factory=FileLists)

    def download(
        self,
        entry: Entry,
        plan: DownloadPlan,
        response: CredentialsResponse,
        damaged: Snapshot | None,
        progress: Progress,
        stop: threading.Event,
        in_use: Callable[[], bool] = lambda: False,
    ) -> tuple[Snapshot, int]:
        """Download what is missing, verify it and commit it.

        Args:
            entry: The entry of the ModelNode.
            plan: The files.
            response: What the controller sent for the claims of the entry.
            damaged: A snapshot to repair instead of a new one to commit.
            progress: Counters to update.
            stop: Ends the download within a second once set.
            in_use: Returns whether pods on this node use the damaged snapshot.

        Returns:
            The snapshot, and the number of bytes transferred.

        Raises:
            LarderError: The download failed.
            Stopped: `stop` was set.
        """
        self.store.incoming.pin(plan)
        self.store.space.renew_for(reservation_of(entry.key), plan, entry.id)  # files it counted on may be gone by now
        is_repair = damaged is not None and damaged.manifest_digest == plan.digest
        try:
            result = self._fetch(entry, plan, response, progress, stop, prove_access=not is_repair)
        except TooManyFilesOnNode:
            self.store.unfinished.discard(plan)
            raise
        if not plan.manifest.allow_pickle:
            self._refuse_pickles(plan, result)
        if damaged is None:
            return self.store.snapshots.commit(plan, entry.id, result.blobs, result.unpacked), result.received_bytes
        return self.store.snapshots.repair(damaged, plan, result.blobs, result.unpacked, in_use), result.received_bytes

    def _refuse_pickles(self, plan: DownloadPlan, result: FetchResult) -> None:
        """Check every file before any is committed; if one may be a pickle, discard them all. Raises PickleRefused."""
        from shared.safe_files.refuse import refuse_pickles  # noqa: PLC0415 - few agents need it

        try:
            blobs = {path: self.store.blobs.path(blob) for path, blob in result.blobs.items()}
            refuse_pickles(blobs, plan.manifest.uri)
        except PickleRefused:
            self.store.unfinished.discard(plan)
            raise

    def _fetch(
        self,
        entry: Entry,
        plan: DownloadPlan,
        response: CredentialsResponse,
        progress: Progress,
        stop: threading.Event,
        *,
        prove_access: bool,
    ) -> FetchResult:
        """Try the credentials of the claims in order until the source accepts one."""
        candidates = [Credentials(c.values, c.hosts) for c in response.grants] or [ANONYMOUS]
        refusals: list[AuthDenied] = []
        for credentials in candidates:
            source = open_source(parse_uri(plan.manifest.uri), credentials, self.sources)
            try:
                return fetch(
                    source,
                    plan,
                    self.store,
                    progress=progress,
                    stop=stop,
                    concurrency=self.connections,
                    rate_limiter=self.rate_limiter,
                    reservation=reservation_of(entry.key),
                    prove_access=prove_access,
                    accept_files=partial(self.file_lists.add, entry.key, plan.digest),
                )
            except AuthDenied as error:
                refusals.append(error)
            finally:
                source.close()
        raise refusals[0]
