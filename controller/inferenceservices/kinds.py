"""The little that is read of what an InferenceService makes."""

from shared.api.core import ObservedStatus
from shared.api.meta import ApiStruct, condition_of
from shared.kube.objects import Meta, Object

SERVICE_LABEL = "larder.dev/inference-service"  # on all that one makes: its name
SERVES_ANNOTATION = "larder.dev/serves"  # on the pods' template: another revision is another template


class Template(ApiStruct, frozen=True, kw_only=True):
    """The template of pods."""

    metadata: Meta = Meta()


class DeploymentSpec(ApiStruct, frozen=True, kw_only=True):
    """How many pods are wanted, and which."""

    replicas: int = 1
    template: Template = Template()


class DeploymentStatus(ObservedStatus, frozen=True, kw_only=True):
    """How many there are."""

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
        """What its newest pods are to get."""
        return self.spec.template.metadata.annotations.get(SERVES_ANNOTATION, "")

    @property
    def is_short(self) -> bool:
        """Whether pods are missing, or not of the newest kind."""
        return self.status.ready_replicas < self.spec.replicas or not self.is_updated

    @property
    def is_updated(self) -> bool:
        """Whether all its pods are of the newest kind."""
        status = self.status
        current = status.observed_generation >= self.metadata.generation
        return current and status.updated_replicas >= self.spec.replicas and status.replicas <= status.updated_replicas

    @property
    def is_stalled(self) -> bool:
        """Whether nothing came of its newest pods for longer than its progress deadline."""
        progress = condition_of(self.status.conditions, "Progressing")
        return progress is not None and progress.status == "False"


def is_controlled_by(meta: Meta, uid: str) -> bool:
    """Return whether an object belongs to the one with this uid."""
    return any(ref.get("controller") is True and ref.get("uid") == uid for ref in meta.owner_references)
