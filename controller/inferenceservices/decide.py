"""Decides from a view of a service what to apply for it. No input or output, no clock."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from controller.inferenceservices.deployment import Deployment
from controller.inferenceservices.objects import autoscaler_of, deployment_of, kube_service_of, replicas_of
from controller.inferenceservices.view import ServiceView
from shared.api.inference_service import InferenceService
from shared.json_object import ReadOnlyJson
from shared.kube.objects import Meta

MANAGER = "larder"
SCALER = "larder-replicas"


@dataclass(frozen=True, slots=True)
class ApplyObject:
    """Apply this manifest as one of our two field managers; fields it does not set belong to others."""

    manifest: ReadOnlyJson
    manager: str = MANAGER

    @property
    def kind(self) -> str:
        """The kind of the object."""
        return str(self.manifest["kind"])


@dataclass(frozen=True, slots=True)
class RemoveObject:
    """Delete an object that Larder created."""

    kind: str
    uid: str


Action: TypeAlias = ApplyObject | RemoveObject


def decide(view: ServiceView) -> list[Action]:
    """Return the actions, in order; none if an object of that name is not ours, or the service is being deleted."""
    if view.service.metadata.deletion_timestamp is not None:
        return []
    return [*_kube_service(view), *_deployment(view), *_autoscaler(view)]


def conflicts(view: ServiceView) -> list[str]:
    """Return the objects that have the service's name but are not its own, or are being deleted."""
    found = [("Service", view.kube_service), ("Deployment", _meta(view)), ("HorizontalPodAutoscaler", view.autoscaler)]
    relevant = [(k, m) for k, m in found if k != "HorizontalPodAutoscaler" or view.service.spec.replicas.are_scaled]
    return [kind for kind, meta in relevant if meta is not None and not _is_free(view, meta)]


def holds_back(view: ServiceView) -> bool:
    """Return whether to leave the pod template unchanged, or the Deployment uncreated, because pods need a Ready model.

    A model that is briefly not Ready changes nothing for the pods that already have it.
    """
    before = view.deployment.serves if view.deployment else ""
    return not view.model.ready and (not view.model.serves or view.model.serves != before)


def _kube_service(view: ServiceView) -> Iterator[Action]:
    if _is_free(view, view.kube_service):
        yield ApplyObject(kube_service_of(view.service))


def _deployment(view: ServiceView) -> Iterator[Action]:
    """Yield the Deployment and, under another field manager, its number of replicas.

    A field that no manager sets falls back to its default, here one replica. A separate field manager owns the number,
    which keeps it in place while an autoscaler takes over. It is applied even while the pod template is held back.
    """
    if not _is_free(view, _meta(view)):
        return
    replicas = view.service.spec.replicas
    number = ApplyObject(replicas_of(view.service, replicas.min), SCALER)
    if view.deployment is None:
        if not holds_back(view):
            yield ApplyObject(deployment_of(view.service, view.model, replicas=replicas.min))
            yield number
        return
    if not replicas.are_scaled:
        yield number
    if holds_back(view):
        return
    if default := _default_strategy(view.service, view.deployment):
        yield ApplyObject(deployment_of(view.service, view.model, replicas=None, strategy=default))
    yield ApplyObject(deployment_of(view.service, view.model, replicas=None))


def _default_strategy(service: InferenceService, deployment: Deployment) -> dict[str, Any]:
    """Return the rolling update of a Deployment whose service wants another strategy; empty if it has none.

    The API server fills in its parameters, and rejects another strategy while they are set. An apply removes only
    fields that the same manager applied before, so they are first applied unchanged, and then left out.
    """
    strategy, wanted = deployment.spec.strategy, service.spec.strategy
    is_replaced = wanted.get("type", "RollingUpdate") != "RollingUpdate" and "rollingUpdate" not in wanted
    return strategy if is_replaced and strategy.get("rollingUpdate") else {}


def _autoscaler(view: ServiceView) -> Iterator[Action]:
    has_deployment = view.deployment is not None or not holds_back(view)
    if not view.service.spec.replicas.are_scaled:
        if view.autoscaler is not None and view.owns(view.autoscaler):
            yield RemoveObject("HorizontalPodAutoscaler", view.autoscaler.uid)
    elif has_deployment and _is_free(view, view.autoscaler) and _is_free(view, _meta(view)):
        yield ApplyObject(autoscaler_of(view.service))


def _is_free(view: ServiceView, meta: Meta | None) -> bool:
    return meta is None or (view.owns(meta) and meta.deletion_timestamp is None)


def _meta(view: ServiceView) -> Meta | None:
    return view.deployment.metadata if view.deployment else None
