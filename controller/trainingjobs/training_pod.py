"""Pods of training jobs, with only the fields that decisions on the job need."""

import msgspec

from controller.jobs.observed_jobs import ContainerState, Terminated
from shared.api.core import PlainCondition
from shared.api.meta import ApiStruct, holds
from shared.kube.objects import Object

_DISRUPTED = "DisruptionTarget"


class TrainingContainer(ApiStruct, frozen=True, kw_only=True):
    """The restart count of a container, and how it ended."""

    name: str = ""
    restart_count: int = 0
    state: ContainerState = ContainerState()


class TrainingPodStatus(ApiStruct, frozen=True, kw_only=True):
    """The phase of a pod, and why it ended."""

    phase: str = "Pending"
    reason: str = ""
    conditions: list[PlainCondition] = []
    container_statuses: list[TrainingContainer] = []


class TrainingPod(Object, frozen=True, kw_only=True):
    """A pod of a job, without labels and annotations, because tenants may write 256 KiB of them."""

    status: TrainingPodStatus = TrainingPodStatus()

    def __post_init__(self) -> None:
        """Drop fields that would use too much memory with thousands of pods."""
        for part in ("labels", "annotations"):
            msgspec.structs.force_setattr(self.metadata, part, {})

    @property
    def phase(self) -> str:
        """Its phase."""
        return self.status.phase

    @property
    def is_leaving(self) -> bool:
        """Whether it is being deleted."""
        return self.metadata.deletion_timestamp is not None

    @property
    def is_disrupted(self) -> bool:
        """Whether it ended for an external reason: loss of its node, eviction or preemption."""
        return holds(self.status.conditions, _DISRUPTED)

    @property
    def restarts(self) -> int:
        """The total restart count of its containers."""
        return sum(status.restart_count for status in self.status.container_statuses)

    @property
    def failed_containers(self) -> list[tuple[str, Terminated]]:
        """The containers that failed, by name."""
        ended = ((status.name, status.state.terminated) for status in self.status.container_statuses)
        return [(name, end) for name, end in ended if end is not None and end.exit_code != 0]
