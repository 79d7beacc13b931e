"""Everything that a decision about one InferenceService depends on."""

from dataclasses import dataclass

from controller.claims.contention import Wait
from controller.inferenceservices.deployment import Deployment, is_controlled_by
from controller.jobs.observed_jobs import ClaimPod
from controller.state.keys import ModelKey
from shared.api.inference_service import InferenceService
from shared.kube.objects import Meta


@dataclass(frozen=True, slots=True)
class ServedModel:
    """The model of a service; `key` is None if there is none, and a change of `serves` replaces the pods.

    `reason` and `message` say why pods cannot use it, and are empty if they can.
    """

    title: str
    key: ModelKey | None = None
    revision: str = ""
    serves: str = ""
    reason: str = ""
    message: str = ""

    @property
    def ready(self) -> bool:
        """Whether pods can use it."""
        return self.key is not None and not self.reason


@dataclass(frozen=True, slots=True)
class ServiceView:
    """One service, its model, and the objects that have its name: a Deployment, a Service, a HorizontalPodAutoscaler.

    `pods` are its pods that have not ended, `waits` those that wait for a claim; both are read only while pods are
    missing.
    """

    service: InferenceService
    model: ServedModel
    deployment: Deployment | None = None
    kube_service: Meta | None = None
    autoscaler: Meta | None = None
    pods: tuple[ClaimPod, ...] = ()
    waits: tuple[Wait, ...] = ()

    @property
    def own_deployment(self) -> Deployment | None:
        """The Deployment, if this service owns it."""
        return self.deployment if self.deployment and self.owns(self.deployment.metadata) else None

    def owns(self, meta: Meta | None) -> bool:
        """Return whether this service owns an object."""
        return meta is not None and is_controlled_by(meta, self.service.metadata.uid)
