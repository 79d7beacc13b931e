"""The few fields that Larder reads from the objects of an InferenceService."""

from typing import Any

from shared.api.core import ObservedStatus
from shared.api.meta import ApiStruct, condition_of
from shared.kube.objects import Meta, Object

SERVICE_LABEL = "larder.dev/inference-service"  # on every object of a service: its name
SERVES_ANNOTATION = "larder.dev/serves"  # on the pod template, so that another revision makes another template


class Template(ApiStruct, frozen=True, kw_only=True):
    """A pod template."""

    metadata: Meta = Meta()


class DeploymentSpec(ApiStruct, frozen=True, kw_only=True):
    """The desired number of replicas, their template, and how they are updated."""

    replicas: int = 1
    strategy: dict[str, Any] = {}
    template: Template = Template()


class DeploymentStatus(ObservedStatus, frozen=True, kw_only=True):
    """The number of replicas that exist."""

    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0


class Deployment(Object, frozen=True, kw_only=True):
    """A Deployment."""

    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()

    @property
    def serves(self) -> str:
        """The revision that its newest pods should get."""
        return self.spec.template.metadata.annotations.get(SERVES_ANNOTATION, "")

    @property
    def is_short(self) -> bool:
        """Whether pods are missing, or are not from the newest template."""
        return self.status.ready_replicas < self.spec.replicas or not self.is_updated

    @property
    def is_updated(self) -> bool:
        """Whether all its pods are from the newest template."""
        status = self.status
        current = status.observed_generation >= self.metadata.generation
        return current and status.updated_replicas >= self.spec.replicas and status.replicas <= status.updated_replicas

    @property
    def is_stalled(self) -> bool:
        """Whether the newest pods have made no progress for longer than the progress deadline."""
        progress = condition_of(self.status.conditions, "Progressing")
        return progress is not None and progress.status == "False"


def is_controlled_by(meta: Meta, uid: str) -> bool:
    """Return whether the object with this uid controls an object."""
    return any(ref.get("controller") is True and ref.get("uid") == uid for ref in meta.owner_references)
