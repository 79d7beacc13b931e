"""All that is known of one InferenceService when it is decided about."""

from dataclasses import dataclass

from controller.claims.contention import Wait
from controller.claims.kinds import ClaimPod
from controller.inferenceservices.kinds import Deployment, is_controlled_by
from controller.state.keys import ModelKey
from shared.api.inference_service import InferenceService
from shared.kube.objects import Meta


@dataclass(frozen=True, slots=True)
class ServedModel:
    """The model of a service. `key` is None where there is none; a change of `serves` makes new pods.

    `reason` and `message` say why pods cannot have it, empty where they can.
    """

    title: str
    key: ModelKey | None = None
    revision: str = ""
    serves: str = ""
    reason: str = ""
    message: str = ""

    @property
    def ready(self) -> bool:
        """Whether pods can have it."""
        return self.key is not None and not self.reason


@dataclass(frozen=True, slots=True)
class ServiceView:
    """One service, its model, and what has its name: a Deployment, a Service, a HorizontalPodAutoscaler.

    `pods` are its own that have not ended, `waits` those of them that wait for a claim; both are looked for only while
    pods are missing.
    """

    service: InferenceService
    model: ServedModel
    deployment: Deployment | None = None
    front: Meta | None = None
    autoscaler: Meta | None = None
    pods: tuple[ClaimPod, ...] = ()
    waits: tuple[Wait, ...] = ()

    @property
    def own_deployment(self) -> Deployment | None:
        """The Deployment, where it is this service's own."""
        return self.deployment if self.deployment and self.owns(self.deployment.metadata) else None

    def owns(self, meta: Meta | None) -> bool:
        """Return whether an object is this service's own."""
        return meta is not None and is_controlled_by(meta, self.service.metadata.uid)
