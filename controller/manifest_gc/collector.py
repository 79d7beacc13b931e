"""Garbage collection: delete what has had no reference for the whole grace period."""

import asyncio
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import structlog

from controller.manifest_gc.decide import charges, overdue, unreferenced, unreferenced_since
from controller.manifest_gc.observe import ManifestObserver
from controller.models.resolver import Resolver
from shared.kube.errors import KubeError

_MAX_PERIOD_S = 20.0
_log = structlog.get_logger()


@dataclass(slots=True)
class ManifestCollector:
    """Collects while this replica leads; only the leader resolves, so it knows every manifest that no object names yet.

    `grace_s` covers the time between storing a manifest and writing the object that refers to it.
    """

    observer: ManifestObserver
    resolver: Resolver
    is_leading: Callable[[], bool]
    grace_s: float
    clock: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    _since: dict[str, float] = field(default_factory=dict, init=False)
    _read_live_at: float = field(default=-math.inf, init=False)

    async def run(self) -> None:
        """Collect periodically until cancelled."""
        self._since.clear()
        while True:
            try:
                await self.collect()
            except KubeError as error:
                _log.info("manifests_not_collected", error=str(error))
            await self.sleep(min(_MAX_PERIOD_S, self.grace_s / 2))

    async def collect(self) -> int:
        """Delete what is due; return how many manifests were deleted. Raises KubeError."""
        stored, references = await self.observer.stored_manifests(), self.observer.known_references()
        self.observer.manifests.charge(charges(stored, references))
        unused = unreferenced(stored, references.keys() | self.resolver.unrecorded_digests())
        self._since = unreferenced_since(unused, self._since, self.clock())
        due = overdue(self._since, self.clock(), self.grace_s)
        # limits live reads, because a tenant can always have unreferenced manifests
        if not due or self.clock() - self._read_live_at < self.grace_s:
            return 0
        self._read_live_at = self.clock()
        live = await self.observer.live_references() | self.resolver.unrecorded_digests()
        garbage = [manifest for digest, manifest in unreferenced(stored, live).items() if digest in due]
        removed = 0
        for manifest in garbage:
            if self.is_leading() and await self.observer.manifests.remove(
                manifest.digest, manifest.uid, manifest.version, self.grace_s
            ):
                removed += 1
        if removed:
            _log.info("manifests_collected", count=removed, size_bytes=sum(manifest.size_bytes for manifest in garbage))
        return removed
