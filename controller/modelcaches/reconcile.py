"""Reconciles one ModelCache: observe, decide, act."""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import assert_never

import structlog

from controller.jobs.live_reads import delete_job
from controller.manager.actions import AddFinalizer, DeleteClaim, RemoveFinalizer, Requeue, Resolve, Withdraw
from controller.manager.poll_delay import poll_delay_s
from controller.modelcaches.act import ModelCacheActor
from controller.modelcaches.actions import (
    Action,
    DeleteCacheVolume,
    DeleteJob,
    ListClaimUsers,
    ProvisionStorage,
    Removal,
    StartDownload,
    WriteCacheStatus,
)
from controller.modelcaches.decide import decide
from controller.modelcaches.keys import ModelCacheKey
from controller.modelcaches.objects import StorageManifest
from controller.modelcaches.observe import ModelCacheObserver
from controller.modelcaches.throttles import holds_slot
from controller.modelcaches.view import ModelCacheView
from controller.models.finalizers import OWN_FINALIZER
from controller.provisioning.creations import Creations
from controller.provisioning.provision_queue import ProvisionOrder
from shared.errors import AuthDenied
from shared.kube.errors import NotFound, Refused

_log = structlog.get_logger()


@dataclass(slots=True)
class ModelCacheReconciler:
    """Drives a ModelCache to its desired state."""

    observer: ModelCacheObserver
    actor: ModelCacheActor
    creations: Creations[ModelCacheKey]
    finalizer_s: float
    enabled: bool = True  # if not, only finalizers are removed, so that no namespace is stuck in deletion
    _uids: dict[ModelCacheKey, str] = field(default_factory=dict, init=False)
    _running: dict[ModelCacheKey, frozenset[str]] = field(
        default_factory=dict, init=False
    )  # with the groups they reach
    _manifests: dict[ModelCacheKey, StorageManifest] = field(default_factory=dict, init=False)  # as wanted last
    _creating: set[ModelCacheKey] = field(default_factory=set, init=False)

    async def take_over(self) -> None:
        """Learn which downloads run, before another one starts."""
        for cache in self.observer.cluster.model_caches:
            if cache.status.job and cache.status.storage_status in ("pvcCreated", "Downloading"):
                self._running[ModelCacheKey(*cache.key)] = self.observer.groups_of(cache)

    async def stop(self) -> None:
        """Drop the state of this leadership."""
        self.creations.clear()
        self._running.clear()
        await self.observer.progress.stop()

    async def reconcile(self, key: ModelCacheKey) -> float | None:
        """Reconcile a cache; return the delay in seconds until the next run, or None."""
        if not self.enabled:
            await self._release(key)
            return None
        found = self.observer.cache(key)
        self._forget_previous(key, found.metadata.uid if found is not None else "")
        position = self.creations.position(key)  # before the reads, which may miss what is created meanwhile
        may_be_created = position is not None or key in self._creating
        view = await self.observer.view(key, self.creations.failure(key))
        if view is None:
            return None
        view = replace(view, position=position, may_be_created=may_be_created)
        self._count(key, view)
        if view.job is None:
            view = self.observer.with_limits(view, self._running)
        delay_s = await self._decide(key, view)
        if delay_s is None:
            return None
        return poll_delay_s(delay_s, self.observer.waiting_in(key.namespace))  # claim and pod events trigger it anyway

    async def _release(self, key: ModelCacheKey) -> None:
        """Remove our finalizer from a deleted cache; its Job and its claim go with it, because it owns them."""
        cache = self.observer.cache(key)
        if cache is not None and cache.metadata.deletion_timestamp and OWN_FINALIZER in cache.metadata.finalizers:
            await self.actor.remove_finalizer(cache)

    def _count(self, key: ModelCacheKey, view: ModelCacheView) -> None:
        """Add a download to the running ones, or remove it."""
        if not holds_slot(view.job, view.pods, self.observer.now()):
            self._running.pop(key, None)
        elif key not in self._running:
            self._running[key] = self.observer.groups_of(view.cache)

    async def _decide(self, key: ModelCacheKey, view: ModelCacheView) -> float | None:
        actions = decide(view, self.observer.now(), self.finalizer_s)
        if ListClaimUsers() in actions:
            view = replace(view, users=await self.observer.users(view))
            actions = decide(view, self.observer.now(), self.finalizer_s)
        for action in actions:
            try:
                await self._apply(key, view, action)
            except (Refused, NotFound, AuthDenied) as error:
                if not isinstance(action, StartDownload):
                    raise
                _log.warning("download_job_refused", cache=f"{key.namespace}/{key.name}", error=str(error))
                self._running.pop(key, None)
                return await self._decide(key, replace(view, job_refused=str(error)))
        return min((action.after_s for action in actions if isinstance(action, Requeue)), default=None)

    async def _apply(self, key: ModelCacheKey, view: ModelCacheView, action: Action) -> None:
        match action:
            case AddFinalizer():
                await self.actor.add_finalizer(view.cache)
            case RemoveFinalizer():
                await self.actor.remove_finalizer(view.cache)
                _log.info("model_cache_deleted", cache=f"{key.namespace}/{key.name}")
            case Resolve():
                self.observer.resolver.start(key, view.demand, view.cache.metadata.generation)
            case ProvisionStorage(manifest):
                self._request(key, manifest)
            case Withdraw():
                self.creations.withdraw(key)
            case StartDownload(order):
                self._running[key] = self.observer.groups_of(view.cache)  # before anything else can start
                await self.actor.require_current(view.cache)  # its claim may have a newer revision by now
                await self.actor.start_job(view, order)
                _log.info("download_job_created", cache=f"{key.namespace}/{key.name}", job=order.job)
            case DeleteJob() | DeleteClaim() | DeleteCacheVolume():
                await self.actor.require_current(view.cache)
                await self._remove(key, action)
            case WriteCacheStatus():
                await self._write_status(key, view, action)
            case ListClaimUsers() | Requeue():
                pass  # done by the caller
            case _:
                assert_never(action)

    async def _remove(self, key: ModelCacheKey, removal: Removal) -> None:
        match removal:
            case DeleteJob(seen):
                await delete_job(self.actor.kube, seen)
            case DeleteClaim(seen):
                await self.actor.delete_claim(seen)
            case DeleteCacheVolume(seen):
                await self.actor.delete_volume(seen)
            case _:
                assert_never(removal)
        _log.info("model_cache_object_deleted", cache=f"{key.namespace}/{key.name}", deleted=type(removal).__name__)

    async def _write_status(self, key: ModelCacheKey, view: ModelCacheView, write: WriteCacheStatus) -> None:
        await self.actor.write_status(view.cache, write)
        if view.answer is not None and write.fields.get("manifest_digest") == view.answer.manifest:
            self.observer.resolver.discard_answer(view.demand.uid)
        if write.state in ("Ready", "Failed"):
            self._running.pop(key, None)

    def _request(self, key: ModelCacheKey, manifest: StorageManifest) -> None:
        self._manifests[key] = manifest
        self.creations.request(
            key,
            partial(self._provision, key),
            ProvisionOrder(manifest.cache.creation_timestamp, manifest.cache.name),
            self.creations.enqueue,
            {"namespace": key.namespace, "cache": key.name, "claim": manifest.claim},
        )

    async def _provision(self, key: ModelCacheKey) -> None:
        """Create the objects as they are wanted now, which may have changed in the queue.

        A request that is withdrawn may still be doing so.
        """
        manifest = self._manifests.get(key)
        if manifest is None:
            return
        self._creating.add(key)
        try:
            await self.actor.provision(manifest)
        finally:
            self._creating.discard(key)

    def _forget_previous(self, key: ModelCacheKey, uid: str) -> None:
        """Drop the state of the object that had this key before: it is gone, or another one has its name."""
        previous = self._uids.pop(key, uid)
        if uid:
            self._uids[key] = uid
        if not uid or previous != uid:
            self.observer.resolver.forget(previous)
            self._manifests.pop(key, None)
            self.creations.withdraw(key)
            self.creations.forget_failure(key)
            self._running.pop(key, None)
            self.observer.progress.forget(key)
