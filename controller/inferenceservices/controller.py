"""The controller of InferenceServices: a Deployment, a Service and an autoscaler for a model."""

from collections.abc import Callable, Iterator

from controller.inferenceservices.deployment import SERVICE_LABEL
from controller.inferenceservices.keys import ServiceKey
from controller.inferenceservices.reconcile import ServiceReconciler
from controller.manager.controller import Controller
from controller.manager.triggers import on_each
from controller.manager.watches import on
from controller.placement.demand import Demand
from controller.state.cluster_state import ClusterState
from controller.state.informer import Informer
from controller.state.keys import ModelKey
from controller.state.kinds.ownership import ManagedSink
from controller.state.models.service_references import refers_to
from shared.api.core import DEPLOYMENTS
from shared.api.inference_service import InferenceService
from shared.api.kinds import INFERENCE_SERVICE
from shared.kube.objects import Key, Object

_MODELS_S = 0.5  # a model's numbers change often while nodes download it


def inferenceservices_controller(
    cluster: ClusterState, reconciler: ServiceReconciler, *, enabled: bool
) -> Controller[ServiceKey]:
    """Return the controller of services; if the feature is off, it watches none."""
    changed = cluster.changed
    ours = ManagedSink(INFERENCE_SERVICE.kind, cluster.ownership, cluster.inference_services, lambda *_: None)
    services = Informer(INFERENCE_SERVICE.path, InferenceService, ours, INFERENCE_SERVICE, waited_for=False)
    deployments = on_each(
        DEPLOYMENTS, Object, service_of_deployment, removed=same_named_service, label_selector=SERVICE_LABEL
    )
    return Controller(
        name="inferenceservices",
        key=ServiceKey,
        all_keys=lambda: (_key(service) for service in cluster.inference_services),
        for_=(on(changed.inference_service, _of_service, informer=services if enabled else None),),
        owns=(deployments,) if enabled else (),
        watches=(on(changed.model, _of_model(cluster), lambda: _MODELS_S),),
        reconcile=reconciler.reconcile,
    )


def service_of_deployment(deployment: Object) -> Iterator[ServiceKey]:
    """Yield the service of a Deployment, which has its name; one with another name was labelled by hand."""
    if deployment.metadata.labels.get(SERVICE_LABEL) == deployment.metadata.name:
        yield from same_named_service(deployment.key)


def same_named_service(deployment: Key) -> Iterator[ServiceKey]:
    """Yield the service with the name of a Deployment; a deleted one belonged to it, if it was ours."""
    yield ServiceKey(deployment.namespace, deployment.name)


def _of_service(before: InferenceService | None, after: InferenceService | None) -> Iterator[ServiceKey]:
    return (_key(service) for service in (before, after) if service is not None)


def _of_model(cluster: ClusterState) -> Callable[[ModelKey, Demand | None, Demand | None], Iterator[ServiceKey]]:
    """Return a function that yields the services that name a model."""

    def services_of_model(_key_of_model: ModelKey, before: Demand | None, after: Demand | None) -> Iterator[ServiceKey]:
        known = [demand for demand in (before, after) if demand is not None]
        return (_key(s) for s in cluster.inference_services if any(refers_to(s, demand) for demand in known))

    return services_of_model


def _key(service: InferenceService) -> ServiceKey:
    return ServiceKey(service.metadata.namespace, service.metadata.name)
