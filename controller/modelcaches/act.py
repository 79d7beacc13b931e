"""Applies the actions decided for a ModelCache."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from controller.downloads.job import DownloadJobSettings
from controller.jobs.observed_jobs import Job
from controller.manager.event_recorder import EventRecorder
from controller.manager.write import change_finalizers, replace_part, require_current
from controller.modelcaches.actions import WriteCacheStatus
from controller.modelcaches.job import DownloadOrder, download_job
from controller.modelcaches.objects import StorageManifest, is_claim_of, is_job_of, is_volume_of
from controller.modelcaches.report import is_failure, status_of
from controller.modelcaches.view import ModelCacheView
from controller.models.finalizers import OWN_FINALIZER
from controller.provisioning.exclusive_names import create_exclusively, name_taken
from controller.sources.credentials import Secrets
from shared.api.core import VOLUMES, PersistentVolume, PersistentVolumeClaim, claims_in, jobs_in
from shared.api.kinds import MODEL_CACHE
from shared.api.model_cache import ModelCache
from shared.kube.collection import get_object
from shared.kube.edit import delete_if_present
from shared.kube.objects import Meta, timestamp
from shared.kube.transport import Kube

_VOLUME_ADVICE = "an administrator can delete it if nobody needs it"


@dataclass(frozen=True, slots=True)
class ModelCacheActor:
    """Writes to the API server; every creation may be repeated."""

    kube: Kube
    events: EventRecorder
    secrets: Secrets
    jobs: DownloadJobSettings
    now: Callable[[], datetime]

    async def add_finalizer(self, cache: ModelCache) -> None:
        """Hold the object's deletion."""
        await self._change_finalizers(cache, [*cache.metadata.finalizers, OWN_FINALIZER])

    async def remove_finalizer(self, cache: ModelCache) -> None:
        """Release the object."""
        await self._change_finalizers(cache, [f for f in cache.metadata.finalizers if f != OWN_FINALIZER])

    async def provision(self, manifest: StorageManifest) -> None:
        """Create the missing parts of a claim and its volume.

        Raises:
            Refused: A name is taken or too long, or the API server refuses the objects.
            KubeError: The request failed; another attempt may succeed.
        """
        volume = await self._ensure_volume(manifest) if manifest.volume_names else ""
        await create_exclusively(
            self.kube,
            claims_in(manifest.cache.namespace),
            manifest.claim_body(volume),
            PersistentVolumeClaim,
            lambda found: is_claim_of(found, manifest.cache),
            "delete it if nobody needs its data, or create the cache under another name",
        )

    async def _ensure_volume(self, manifest: StorageManifest) -> str:
        """Return the name of the cache's volume, which is created under the first name that is free."""
        free = list[str]()
        for name in manifest.volume_names:
            found = await get_object(self.kube, f"{VOLUMES}/{name}", PersistentVolume)
            if found is None:
                free.append(name)
            elif is_volume_of(found, manifest.cache):
                return name
        if not free:
            raise name_taken("PersistentVolume", " and ".join(manifest.volume_names), _VOLUME_ADVICE)
        await create_exclusively(
            self.kube,
            VOLUMES,
            manifest.volume_body(free[0]),
            PersistentVolume,
            lambda found: is_volume_of(found, manifest.cache),
            _VOLUME_ADVICE,
        )
        return free[0]

    async def require_current(self, cache: ModelCache) -> None:
        """Raise StaleError if the cache is not the one that was read any more."""
        await require_current(self.kube, MODEL_CACHE.path_to(cache.metadata), cache.metadata)

    async def start_job(self, view: ModelCacheView, order: DownloadOrder) -> None:
        """Create the Job unless it exists.

        Raises:
            Refused: The name is taken, or the API server refuses the Job.
            AuthDenied: The Secret cannot be used.
            KubeError: The request failed; another attempt may succeed.
        """
        credentials = await self.secrets.credentials_of(view.demand)
        body = download_job(view.cache, order, tuple(credentials.values), credentials.hosts, self.jobs)
        await create_exclusively(
            self.kube,
            jobs_in(view.demand.namespace),
            body,
            Job,
            lambda found: is_job_of(found, view.cache.metadata),
            "delete it",
        )

    async def delete_claim(self, seen: Meta) -> None:
        """Delete the claim that was read."""
        await delete_if_present(self.kube, f"{claims_in(seen.namespace)}/{seen.name}", seen.uid)

    async def delete_volume(self, seen: Meta) -> None:
        """Delete the volume that was read."""
        await delete_if_present(self.kube, f"{VOLUMES}/{seen.name}", seen.uid)

    async def write_status(self, cache: ModelCache, write: WriteCacheStatus) -> None:
        """Write the status if it differs, and an Event for a change of the condition Ready."""
        status = status_of(cache, write, timestamp(self.now()))
        if status == cache.status:
            return
        await replace_part(self.kube, f"{MODEL_CACHE.path_to(cache.metadata)}/status", cache.metadata, "status", status)
        before, after = cache.status.conditions, status.conditions
        await self.events.record_ready(MODEL_CACHE, cache.metadata, before, after, warn=is_failure(write))

    async def _change_finalizers(self, cache: ModelCache, wanted: Sequence[str]) -> None:
        await change_finalizers(self.kube, MODEL_CACHE.path_to(cache.metadata), cache.metadata, list(wanted))
