"""Gathers what a decision on a model on a claim needs: the model from the caches, the claim and its Job live."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from controller.claims.contention import limit_of, users_of, waits_of
from controller.claims.read_request import JOB_PREFIX, request_of
from controller.claims.result import claim_problem
from controller.claims.view import NAMESPACE_LABEL, ClaimView
from controller.jobs.live_reads import live_pods, pods_of_job, read_claim
from controller.jobs.observed_jobs import JOB_NAME_LABEL, ClaimPod, Job
from controller.metadata.fill import SKIP_ANNOTATION, written_fields
from controller.placement.claim_place import place_of
from controller.state.cluster_state import ClusterState
from controller.state.keys import ModelKey
from shared.api.base_model import BaseModel
from shared.api.core import BOUND, STORAGE_CLASSES, PersistentVolumeClaim, StorageClass, jobs_in
from shared.kube.collection import get_object
from shared.kube.errors import Refused
from shared.kube.objects import Object
from shared.kube.transport import Kube


@dataclass(frozen=True, slots=True)
class ClaimObserver:
    """Reads a few objects live per reconcile, so nothing is stale; `requires_label`: namespaces must be labelled."""

    cluster: ClusterState
    kube: Kube
    now: Callable[[], datetime]
    requires_label: bool = False

    async def view(self, key: ModelKey) -> ClaimView | None:
        """Return the model and its claim, or None if it is gone or not on a claim. Raises KubeError."""
        declared, demand = self.cluster.declared(key), self.cluster.models.demands.get(key)
        if not isinstance(declared, BaseModel) or demand is None or not demand.on_claim:
            return None
        view = ClaimView(
            demand=demand,
            generation=declared.metadata.generation,
            place=place_of(demand.uri, demand.namespace),
            skip=declared.metadata.annotations.get(SKIP_ANNOTATION) == "true",
            spec=written_fields(declared.spec),
            status=declared.status,
        )
        try:
            return await self._with_job(await self._with_pods(await self._with_claim(view)))
        except Refused as error:
            return replace(view, refused=str(error))

    async def _with_claim(self, view: ClaimView) -> ClaimView:
        place, demand = view.place, view.demand
        if self.requires_label and not demand.namespace and not await self._is_labelled(place.namespace):
            return replace(view, allowed=False)
        claim = await read_claim(self.kube, place)
        if claim is None:
            return view
        pending = claim.status.phase != BOUND
        return replace(view, claim=claim, waits_for_consumer=pending and await self._waits_for_consumer(claim))

    async def _is_labelled(self, namespace: str) -> bool:
        found = await get_object(self.kube, f"/api/v1/namespaces/{namespace}", Object)
        return found is not None and found.metadata.labels.get(NAMESPACE_LABEL) == "true"

    async def _waits_for_consumer(self, claim: PersistentVolumeClaim) -> bool:
        name = claim.spec.storage_class_name
        if not name:
            return False
        found = await get_object(self.kube, f"{STORAGE_CLASSES}/{name}", StorageClass)
        return found is not None and found.volume_binding_mode == "WaitForFirstConsumer"

    async def _with_pods(self, view: ClaimView) -> ClaimView:
        """Return the view with the pods that hold a single-node or single-pod claim, and those that wait for it."""
        if view.claim is None or claim_problem(view) is not None or not limit_of(view.claim):
            return view
        pods = await live_pods(self.kube, view.place.namespace)
        users = tuple(p for p in users_of(view.claim, pods) if not _reads_metadata(p))
        waits = tuple(w for w in waits_of(view.claim, pods) if not _reads_metadata(w.pod))
        named = (p for p in pods if p.names(view.place.claim) and not _reads_metadata(p))
        return replace(view, users=users, waits=waits, starting=any(p.status.phase != "Running" for p in named))

    async def _with_job(self, view: ClaimView) -> ClaimView:
        request = request_of(view, self.now()) if claim_problem(view) is None else None
        if request is None:
            return view
        namespace = view.place.namespace
        job = await get_object(self.kube, f"{jobs_in(namespace)}/{request.job}", Job)
        return replace(view, job=job, pods=await pods_of_job(self.kube, namespace, request.job) if job else ())


def _reads_metadata(pod: ClaimPod) -> bool:
    """Return whether a pod belongs to one of our Jobs; pods of other Jobs hold a claim like any other pod."""
    return pod.metadata.labels.get(JOB_NAME_LABEL, "").startswith(JOB_PREFIX)
