"""Gathers what a decision on a service needs: the model from the caches, and live the objects that have its name."""

from dataclasses import dataclass, replace

from controller.admission.catalog.port import Catalog
from controller.admission.pods.choose_cache import problem_of
from controller.claims.contention import limit_of, waits_of
from controller.claims.result import WAITS
from controller.inferenceservices.deployment import SERVICE_LABEL, Deployment
from controller.inferenceservices.keys import ServiceKey
from controller.inferenceservices.objects import path_of
from controller.inferenceservices.view import ServedModel, ServiceView
from controller.jobs.live_reads import live_pods, read_claim
from controller.placement.claim_place import place_of
from controller.placement.demand import Demand
from controller.state.cluster_state import ClusterState
from controller.state.keys import ModelKey
from controller.state.models.service_references import model_of
from shared.api.core import PersistentVolumeClaim
from shared.api.inference_service import InferenceService
from shared.api.kinds import INFERENCE_SERVICE
from shared.api.meta import condition_of
from shared.kube.collection import get_object
from shared.kube.objects import Object
from shared.kube.transport import Kube


@dataclass(frozen=True, slots=True)
class ServiceObserver:
    """Reads a few objects per reconcile; `catalog` says whether admission would give a model to a pod."""

    cluster: ClusterState
    kube: Kube
    catalog: Catalog

    async def view(self, key: ServiceKey) -> ServiceView | None:
        """Return the view, or None if the service is gone or another product owns the kind. Raises KubeError."""
        service = self.cluster.service(key.namespace, key.name)
        if service is None or self.cluster.ownership.is_foreign(INFERENCE_SERVICE.kind):
            return None
        deployment = await get_object(self.kube, path_of("Deployment", key.namespace, key.name), Deployment)
        kube_service = await get_object(self.kube, path_of("Service", key.namespace, key.name), Object)
        scaler = await get_object(self.kube, path_of("HorizontalPodAutoscaler", key.namespace, key.name), Object)
        view = ServiceView(
            service=service,
            model=self.model(service),
            deployment=deployment,
            kube_service=kube_service.metadata if kube_service else None,
            autoscaler=scaler.metadata if scaler else None,
        )
        short = view.own_deployment is not None and view.own_deployment.is_short
        return await self._with_pods(view) if short else view

    async def _with_pods(self, view: ServiceView) -> ServiceView:
        """Return the view with the service's pods; any pod of the namespace may hold its claim."""
        meta = view.service.metadata
        claim = await self._claim(view)
        if claim is None or not limit_of(claim):
            pods = await live_pods(self.kube, meta.namespace, f"{SERVICE_LABEL}={meta.name}")
            return replace(view, pods=tuple(pods))
        pods = await live_pods(self.kube, meta.namespace)
        own = tuple(pod for pod in pods if pod.metadata.labels.get(SERVICE_LABEL) == meta.name)
        return replace(view, pods=own, waits=tuple(w for w in waits_of(claim, pods) if w.pod in own))

    async def _claim(self, view: ServiceView) -> PersistentVolumeClaim | None:
        """Return the claim that the service's pods mount from their namespace, or None."""
        demand = self.cluster.models.demands.get(view.model.key) if view.model.key else None
        if demand is None or not demand.on_claim:
            return None
        place = place_of(demand.uri, demand.namespace)
        return await read_claim(self.kube, place) if place.namespace == view.service.metadata.namespace else None

    def model(self, service: InferenceService) -> ServedModel:
        """Return the model that a service names, and whether pods of its namespace can use it."""
        demand, namespace = model_of(service, self.cluster.models.demands.values()), service.metadata.namespace
        if demand is None:
            return self._missing(service)
        key = ModelKey(demand.kind, demand.namespace, demand.name)
        found = self.catalog.base_model(namespace, demand.name, demand.kind)
        if found is None:
            return self._missing(service)
        serves = f"{demand.id}@{demand.uri if demand.on_claim else demand.serving}"
        reason, message = self._unusable_reason(demand, namespace)
        problem = problem_of(found, needs_revision=not demand.on_claim)
        if problem and not reason:
            reason, message = found.reason or "ModelNotReady", f"{found.title} {problem}"
        if not reason:
            reason, message = self._not_ready(key)
        return ServedModel(
            title=found.title,
            key=key,
            revision=demand.serving,
            serves=serves if demand.on_claim or demand.serving else "",
            reason=reason,
            message=message,
        )

    def _missing(self, service: InferenceService) -> ServedModel:
        spec, namespace = service.spec, service.metadata.namespace
        if spec.model is None:
            message = f"no ClusterBaseModel and no BaseModel in namespace {namespace} has storageUri {spec.storage_uri}"
            return ServedModel(spec.storage_uri or "", reason="ModelNotFound", message=f"{message}; create one")
        key = ModelKey(spec.model.kind, namespace if spec.model.kind == "BaseModel" else "", spec.model.name)
        title = f"{key.kind} {key.namespace}/{key.name}" if key.namespace else f"{key.kind} {key.name}"
        if key in self.cluster.models.unmanaged:
            message = f"{title} belongs to another product, so Larder does not manage it"
            return ServedModel(title, reason="ModelNotManaged", message=message)
        message = f"there is no {title}; create it, or correct spec.model"
        return ServedModel(title, reason="ModelNotFound", message=message)

    def _unusable_reason(self, demand: Demand, namespace: str) -> tuple[str, str]:
        if demand.foreign:
            return "ModelNotManaged", f"{demand.kind} {demand.name} is provided by its vendor"
        if not demand.on_claim:
            return "", ""
        place = place_of(demand.uri, demand.namespace)
        if place.namespace == namespace:
            return "", ""
        message = f"{demand.kind} {demand.name} is on claim {place.claim} in namespace {place.namespace}, and a claim"
        return "NamespaceNotAllowed", f"{message} can be mounted only there; serve it from that namespace"

    def _not_ready(self, key: ModelKey) -> tuple[str, str]:
        declared = self.cluster.declared(key)
        ready = condition_of(declared.status.conditions, "Ready") if declared else None
        if ready is not None and (ready.status == "True" or ready.reason == WAITS):  # a pod must bind the claim
            return "", ""
        return (ready.reason, ready.message) if ready else ("ModelNotReady", "its state is not known yet")
