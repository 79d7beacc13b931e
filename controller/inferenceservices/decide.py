"""From a view of a service to what is to be applied for it. No input or output, no clock."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from controller.inferenceservices.manifests import autoscaler_of, deployment_of, front_of, replicas_of
from controller.inferenceservices.view import ServiceView
from shared.kube.objects import Meta

MANAGER = "larder"
SCALER = "larder-replicas"
Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Apply:
    """Have an object say this, in the name of one of our two field managers; its other fields are others'."""

    manifest: Json
    manager: str = MANAGER

    @property
    def kind(self) -> str:
        """The kind of the object."""
        return str(self.manifest["kind"])


@dataclass(frozen=True, slots=True)
class RemoveObject:
    """Take an object of ours away."""

    kind: str
    uid: str


Action: TypeAlias = Apply | RemoveObject


def decide(view: ServiceView) -> list[Action]:
    """Return what to apply, in order; nothing of a name that is somebody else's, nor for a service on its way out."""
    if view.service.metadata.deletion_timestamp is not None:
        return []
    return [*_front(view), *_deployment(view), *_autoscaler(view)]


def conflicts(view: ServiceView) -> list[str]:
    """Return the objects that have the service's name and are not its own, or are being deleted."""
    found = [("Service", view.front), ("Deployment", _meta(view)), ("HorizontalPodAutoscaler", view.autoscaler)]
    wanted = [(k, m) for k, m in found if k != "HorizontalPodAutoscaler" or view.service.spec.replicas.are_scaled]
    return [kind for kind, meta in wanted if meta is not None and not _is_free(view, meta)]


def holds_back(view: ServiceView) -> bool:
    """Return whether the Deployment is left as it is, or not made: pods come for a model that is ready.

    One that is not ready just now takes no change from the pods that have it already.
    """
    before = view.deployment.serves if view.deployment else ""
    return not view.model.ready and (not view.model.serves or view.model.serves != before)


def _front(view: ServiceView) -> Iterator[Action]:
    if _is_free(view, view.front):
        yield Apply(front_of(view.service))


def _deployment(view: ServiceView) -> Iterator[Action]:
    """Yield the Deployment and, under another name, the number of its replicas.

    What nobody states any more falls back to its default, which is one replica: the number is stated in a name of its
    own, which goes on standing for it when an autoscaler takes over.
    """
    if holds_back(view) or not _is_free(view, _meta(view)):
        return
    replicas = view.service.spec.replicas
    number = Apply(replicas_of(view.service, replicas.min), SCALER)
    if view.deployment is None:
        yield Apply(deployment_of(view.service, view.model, replicas=replicas.min))
        yield number
        return
    if not replicas.are_scaled:
        yield number
    yield Apply(deployment_of(view.service, view.model, replicas=None))


def _autoscaler(view: ServiceView) -> Iterator[Action]:
    if not view.service.spec.replicas.are_scaled:
        if view.autoscaler is not None and view.owns(view.autoscaler):
            yield RemoveObject("HorizontalPodAutoscaler", view.autoscaler.uid)
    elif not holds_back(view) and _is_free(view, view.autoscaler) and _is_free(view, _meta(view)):
        yield Apply(autoscaler_of(view.service))


def _is_free(view: ServiceView, meta: Meta | None) -> bool:
    return meta is None or (view.owns(meta) and meta.deletion_timestamp is None)


def _meta(view: ServiceView) -> Meta | None:
    return view.deployment.metadata if view.deployment else None
