"""Pods of training jobs, as far as decisions on the job need them."""

import msgspec

from controller.claims.kinds import ContainerState, Terminated
from shared.api.core import PlainCondition
from shared.api.meta import ApiStruct, holds
from shared.kube.objects import Object

_DISRUPTED = "DisruptionTarget"


class TrainingContainer(ApiStruct, frozen=True, kw_only=True):
    """How often a container restarted, and how it ended."""

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
    """A pod of a job. Labels and annotations are not kept, because tenants may write 256 KiB of them."""

    status: TrainingPodStatus = TrainingPodStatus()

    def __post_init__(self) -> None:
        """Drop what thousands of pods would fill the memory with."""
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
        """Whether something other than its containers ended it: the loss of its node, an eviction, a preemption."""
        return holds(self.status.conditions, _DISRUPTED)

    @property
    def restarts(self) -> int:
        """How often its containers restarted."""
        return sum(status.restart_count for status in self.status.container_statuses)

    @property
    def failed_containers(self) -> list[tuple[str, Terminated]]:
        """The containers that ended with an error, by name."""
        ended = ((status.name, status.state.terminated) for status in self.status.container_statuses)
        return [(name, end) for name, end in ended if end is not None and end.exit_code != 0]
