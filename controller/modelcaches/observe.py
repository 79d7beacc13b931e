"""Gathers what a decision on a ModelCache needs: the cache and its claim from memory, its Job live."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from controller.downloads.job import COMPONENT
from controller.downloads.progress import ProgressReader
from controller.jobs.live_reads import live_pods, pods_of_job, read_job
from controller.jobs.observed_jobs import Job
from controller.modelcaches.download_steps import current_job
from controller.modelcaches.keys import ModelCacheKey
from controller.modelcaches.objects import is_claim_of, is_job_of, is_volume_of, template_of
from controller.modelcaches.throttles import rate_limit, why_wait
from controller.modelcaches.view import ModelCacheView
from controller.models.finalizers import OWN_FINALIZER
from controller.models.resolver import Resolver
from controller.placement.demand import Demand
from controller.placement.selectors import matches_labels
from controller.placement.volume_names import hashed_claim, volume_names
from controller.provisioning.creation_failure import CreationFailure
from controller.state.cluster_state import ClusterState
from shared.api.core import (
    STORAGE_CLASSES,
    TERMINAL_PHASES,
    VOLUMES,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from shared.api.kinds import MODEL_CACHE
from shared.api.model_cache import ModelCache
from shared.errors import AuthDenied
from shared.kube.collection import get_object
from shared.kube.objects import Key
from shared.kube.transport import Kube

_LOCAL = "local"


@dataclass(frozen=True, slots=True)
class ModelCacheObserver:
    """Reads the cluster state, and live what no informer watches.

    Args:
        cluster: The cluster state.
        kube: The API client.
        resolver: Resolves sources.
        progress: Asks pods for their progress.
        now: The clock.
        csi_drivers: The drivers that pvSpec may name.
    """

    cluster: ClusterState
    kube: Kube
    resolver: Resolver
    progress: ProgressReader[ModelCacheKey]
    now: Callable[[], datetime]
    csi_drivers: frozenset[str] = frozenset()

    def cache(self, key: ModelCacheKey) -> ModelCache | None:
        """Return the cached object."""
        return self.cluster.model_caches.get(Key(key.namespace, key.name))

    async def view(self, key: ModelCacheKey, failure: CreationFailure | None) -> ModelCacheView | None:
        """Return the cache and its objects, or None if it does not exist. Raises KubeError."""
        cache = self.cache(key)
        if cache is None:
            return None
        demand = self.cluster.models.demand_of_model_cache(cache)
        meta = cache.metadata
        claim_name, claim = self._claim(cache)
        answer = self.resolver.answer_of(meta.uid, demand.uri, demand.selection.key)
        view = ModelCacheView(
            cache=cache,
            demand=demand,
            has_finalizer=OWN_FINALIZER in meta.finalizers,
            problems=tuple(self._problems(cache, demand)),
            claim_name=claim_name,
            claim=claim,
            is_ours=claim is not None and is_claim_of(claim, meta),
            creation_failure=failure,
            answer=answer.resolution if answer is not None else None,
            failure=self.resolver.failure_of(meta.uid, meta.generation, demand.refresh),
            may_resolve=self.resolver.wait_s(meta.uid, meta.generation, demand.refresh) == 0,
        )
        return await self._with_job(await self._with_storage(view))

    async def users(self, view: ModelCacheView) -> tuple[str, ...]:
        """Return the pods that mount the claim; the download's own pods do not count.

        A pod in the cluster state is enough to delay the deletion, but only a live list can show that there is none.
        """
        if known := tuple(self._known_users(view)):
            return known
        pods = await live_pods(self.kube, view.demand.namespace)
        using = (pod.metadata for pod in pods if view.is_ours and pod.names(view.claim_name))
        return tuple(sorted(meta.name for meta in using if meta.labels.get(COMPONENT[0]) != COMPONENT[1]))

    def waiting_in(self, namespace: str) -> int:
        """Return how many caches of a namespace are not Ready."""
        return sum(cache.status.storage_status != "Ready" for cache in self.cluster.model_caches_in(namespace))

    def _known_users(self, view: ModelCacheView) -> Iterator[str]:
        namespace, claim = view.demand.namespace, view.claim_name
        for pod in self.cluster.model_pods if view.is_ours else ():
            if (
                pod.metadata.namespace == namespace
                and pod.status.phase not in TERMINAL_PHASES
                and claim in pod.spec.claims
            ):
                yield pod.metadata.name

    def with_limits(self, view: ModelCacheView, running: dict[ModelCacheKey, frozenset[str]]) -> ModelCacheView:
        """Add the limits of the nodes that the download may run on, and whether it has to wait for others."""
        nodes = self._nodes(view.demand)
        groups = {name for node in nodes for name in self.cluster.membership.of(node)}
        found = (self.cluster.group(name) for name in groups)
        most = {group.metadata.name: group.spec.max_concurrent_nodes for group in found if group is not None}
        others = [(key.namespace, reached) for key, reached in running.items() if key != ModelCacheKey(*view.cache.key)]
        return replace(
            view,
            waits_for=why_wait(view.demand.namespace, most, others),
            limit_bytes_s=rate_limit(self.cluster.membership.limits_of(node).bandwidth_bytes_s for node in nodes),
        )

    def groups_of(self, cache: ModelCache) -> frozenset[str]:
        """Return the groups whose nodes a download may run on."""
        demand = self.cluster.models.demand_of_model_cache(cache)
        return frozenset(name for node in self._nodes(demand) for name in self.cluster.membership.of(node))

    def _nodes(self, demand: Demand) -> list[Node]:
        return [node for node in self.cluster.nodes if matches_labels(demand.node_selector, node.metadata.labels)]

    def _problems(self, cache: ModelCache, demand: Demand) -> Iterator[tuple[str, str]]:
        if demand.invalid:
            yield "InvalidURI", demand.invalid
        elif demand.on_claim or demand.uri.startswith(f"{_LOCAL}://"):
            yield "InvalidURI", f"a ModelCache cannot download {demand.uri}; name a source outside the cluster"
        elif demand.refused:
            yield "SourceNotAllowed", demand.refused
        yield from (("InvalidTemplate", problem) for problem in template_of(cache).problems(self.csi_drivers))
        if message := self.cluster.ownership.missing_fields(MODEL_CACHE.kind):
            yield "OutdatedDefinition", message

    def _claim(self, cache: ModelCache) -> tuple[str, PersistentVolumeClaim | None]:
        """Return the claim and its name, which is the cache's own unless another claim has it."""
        meta, claims = cache.metadata, self.cluster.volumes.claims
        if cache.status.claim:
            return cache.status.claim, claims.get(Key(meta.namespace, cache.status.claim))
        found = claims.get(Key(meta.namespace, meta.name))
        if found is None or is_claim_of(found, meta):
            return meta.name, found
        other = hashed_claim(meta.name, meta.uid)
        return other, claims.get(Key(meta.namespace, other))

    async def _with_storage(self, view: ModelCacheView) -> ModelCacheView:
        claim, volume, storage_class = view.claim, None, None
        if view.cache.spec.pv_spec or view.demand.deleting:  # a pvSpec may have been removed, but not its volume
            volume = await self._volume(view)
        elif claim is not None and claim.status.phase != "Bound" and (name := claim.spec.storage_class_name):
            storage_class = await get_object(self.kube, f"{STORAGE_CLASSES}/{name}", StorageClass)
        return replace(view, volume=volume, storage_class=storage_class)

    async def _volume(self, view: ModelCacheView) -> PersistentVolume | None:
        """Return the volume of the cache; one of another namespace may have the first of its names."""
        for name in volume_names(view.demand.namespace, view.claim_name):
            found = await get_object(self.kube, f"{VOLUMES}/{name}", PersistentVolume)
            if found is not None and is_volume_of(found, view.cache.metadata):
                return found
        return None

    async def _with_job(self, view: ModelCacheView) -> ModelCacheView:
        going = view.demand.deleting or (view.claim is not None and view.claim.metadata.deletion_timestamp is not None)
        name = view.cache.status.job if going or view.problems else current_job(view)
        if not name:
            return view
        recorded = view.cache.status.job
        job = await self._job(view, name)
        if job is None:
            earlier = await self._job(view, recorded) if recorded not in ("", name) else None
            return replace(view, outdated_job=earlier) if earlier is not None and earlier.end is None else view
        pods = await pods_of_job(self.kube, view.demand.namespace, name)
        refused = await self._why_secret_refused(view.demand) if job.end is None and not going else ""
        percent = self.progress.percent_of(ModelCacheKey(*view.cache.key), pods)
        return replace(view, job=job, pods=pods, percent=percent, secret_refused=refused)

    async def _why_secret_refused(self, demand: Demand) -> str:
        try:
            await self.resolver.secrets.credentials_of(demand)
        except AuthDenied as error:
            return str(error)
        return ""

    async def _job(self, view: ModelCacheView, name: str) -> Job | None:
        """Return the cache's Job of that name; anyone who may write a status could name another."""
        found = await read_job(self.kube, view.demand.namespace, name)
        return found if found is not None and is_job_of(found, view.cache.metadata) else None
