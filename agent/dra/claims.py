"""Prepares and unprepares claims; their CDI files make them survive restarts."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol
from weakref import WeakValueDictionary

import structlog

from agent.dra.allow_list import AllowList, check_allowed
from agent.dra.cdi_edits import PluginEdits, PreparedDevice, cdi_file, prepared_devices
from agent.dra.cdi_files import CdiFiles
from agent.dra.decide import AllocateRequest, allocate_requests, held_devices, models_of
from agent.dra.kubelet_claim import KubeletClaim
from agent.dra.observe import PreparationObserver
from shared.errors import LarderError, StoreFailure

_LOG: structlog.stdlib.BoundLogger = structlog.get_logger()
_REMEMBERED = 10_000


class DeviceAllocator(Protocol):
    """Asks the device plugins of this node."""

    async def allocate(self, request: AllocateRequest) -> PluginEdits:
        """Return everything that the plugins add for a container.

        Args:
            request: The pod and the container, with the devices that the scheduler chose.

        Raises:
            PrepareRefused: A plugin that failed may offer some of the devices, or two plugins contradict each other.
        """


@dataclass(slots=True)
class PreparedClaims:
    """The claims that are prepared on this node.

    Calls for the same claim run one after another: kubelet sends several at once if pods share it.
    """

    observer: PreparationObserver
    files: CdiFiles
    allowed: AllowList
    allocator: DeviceAllocator
    restore_s: float = 30.0  # per claim; kubelet waits longer for unprepare, which waits for the lock
    _locks: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary, init=False)
    _done: set[str] = field(default_factory=set, init=False)
    _recent: set[str] = field(default_factory=set, init=False)  # claims prepared since `restore` last listed claims
    _undone: set[str] = field(default_factory=set, init=False)  # claims that kubelet has finished with

    async def prepare(self, ref: KubeletClaim) -> Sequence[PreparedDevice]:
        """Write the file of a claim, based on live reads of the API server and the disk. Raises LarderError."""
        self._undone.discard(ref.uid)
        async with self._lock(ref.uid):
            return await self._prepare(ref)

    async def unprepare(self, ref: KubeletClaim) -> None:
        """Remove the file of a claim, if there is one. Raises StoreFailure."""
        if len(self._undone) >= _REMEMBERED:
            self._undone.clear()  # at worst, `restore` writes the file of one of them again until it runs next
        self._undone.add(ref.uid)
        async with self._lock(ref.uid):
            self.files.remove(ref.uid)
            self._done.discard(ref.uid)
            self._recent.discard(ref.uid)
        _LOG.info("resource_claim_unprepared", claim=str(ref), uid=ref.uid)

    def lost(self) -> set[str]:
        """Return the prepared claims whose file has disappeared."""
        return self._done - self.files.uids()

    async def restore(self) -> bool:
        """Write missing files of live claims and remove those of deleted ones; return whether all files are written.

        Kubelet prepares a claim only when it creates a pod's sandbox. If the file is lost later, containers of the pod
        can no longer restart. A claim without a pod keeps its file, because kubelet may still count it as prepared, and
        then does not prepare it for its next pod.
        Raises KubeError.
        """
        self._recent.clear()
        before = self.files.uids()  # before the list, so each of these claims is listed, deleted, or prepared again
        claims = {claim.metadata.uid: claim for claim in await self.observer.claims()}
        needed = claims.keys() | self._recent
        complete = True
        for uid in before - needed:
            complete = self._drop(uid) and complete
        files = self.files.uids()
        self._done = self._done & needed | claims.keys() & files  # also those that an earlier driver prepared
        reserved = {uid for uid, claim in claims.items() if claim.status.reserved_for}
        for uid in reserved - files:
            ref = KubeletClaim(claims[uid].metadata.namespace, claims[uid].metadata.name, uid)
            complete = await self._restore(ref) and complete
        return complete

    def _drop(self, uid: str) -> bool:
        """Remove the file of a deleted claim; return whether it is gone."""
        try:
            self.files.remove(uid)
        except StoreFailure as error:
            _LOG.warning("resource_claim_not_dropped", uid=uid, message=str(error))
            return False
        _LOG.info("resource_claim_dropped", uid=uid)
        return True

    async def _restore(self, ref: KubeletClaim) -> bool:
        """Write the missing file of a claim, unless kubelet has finished with it; return whether that succeeded."""
        try:
            async with asyncio.timeout(self.restore_s), self._lock(ref.uid):
                if ref.uid in self._undone:  # possibly since the list was read
                    return True
                await self._prepare(ref)
        except (LarderError, TimeoutError) as error:
            message = str(error) or f"not done within {self.restore_s:g} s"
            _LOG.warning("resource_claim_not_restored", claim=str(ref), uid=ref.uid, message=message)
            self._done.discard(ref.uid)  # so that `lost` does not report it again
            return False
        _LOG.info("resource_claim_restored", claim=str(ref), uid=ref.uid)
        return True

    def _lock(self, uid: str) -> asyncio.Lock:
        """Return the lock of a claim, which exists while a call holds it or waits for it."""
        return self._locks.setdefault(uid, asyncio.Lock())

    async def _prepare(self, ref: KubeletClaim) -> Sequence[PreparedDevice]:
        """Prepare a claim; the caller holds its lock."""
        view = await self.observer.view(ref, with_pods=not self.allowed.empty)
        devices = held_devices(view)
        models = models_of(view, devices)
        plugin_edits: dict[int, PluginEdits] = {}
        if not self.allowed.empty:  # an empty list allows nothing, so no plugin is asked
            answers: dict[str, PluginEdits] = {}  # by container; only one pod can have devices of plugins
            for request in allocate_requests(view, devices):
                if request.container not in answers:
                    answers[request.container] = await self._allocate(request)
                plugin_edits[request.index] = answers[request.container]
        prepared = prepared_devices(ref.uid, devices, models, plugin_edits)
        self.files.write(ref.uid, cdi_file(prepared))
        self._done.add(ref.uid)
        self._recent.add(ref.uid)
        names = [each.allocated.device for each in prepared]
        _LOG.info("resource_claim_prepared", claim=str(ref), uid=ref.uid, devices=names)
        return prepared

    async def _allocate(self, request: AllocateRequest) -> PluginEdits:
        edits = await self.allocator.allocate(request)
        check_allowed(self.allowed, edits.mounts.values(), edits.devices, edits.env, request.container)
        return edits
