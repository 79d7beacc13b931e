"""The input of a decision on one TrainingJob."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from controller.claimtemplates.templates import VolumeClaimTemplate
from controller.provisioning.creation_failure import CreationFailure
from controller.trainingjobs.objects import JobReplica
from controller.trainingjobs.training_pod import TrainingPod
from shared.api.training_job import TrainingJob


@dataclass(frozen=True, slots=True)
class JobObstacle:
    """Why a replica gets no pod: a reason and a message."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class ReplicaView:
    """One replica that a job wants.

    Args:
        replica: Its role and index.
        name: Name of its pod.
        pod: Its pod, or None.
        expected: Whether its pod was just created and is not in the cache yet.
        missing: The templates of its missing claims; none once its pod has started.
        obstacle: What blocks its claims or its pod, or None.
        unbound: Its claims that exist and are not bound.
    """

    replica: JobReplica
    name: str
    pod: TrainingPod | None = None
    expected: bool = False
    missing: tuple[VolumeClaimTemplate, ...] = ()
    obstacle: JobObstacle | None = None
    unbound: tuple[str, ...] = ()

    @property
    def waits_for_volumes(self) -> bool:
        """Whether it waits for a claim: to be created, for a name to become free, or to be bound."""
        if self.pod is None:
            return bool(self.missing) or self.obstacle is not None
        return bool(self.missing or self.unbound) and self.pod.phase == "Pending"


@dataclass(frozen=True, slots=True)
class QueueState:
    """The number of a job's queued claims, and the position of the first; 0 if none is queued."""

    queued: int = 0
    position: int = 0


@dataclass(frozen=True, slots=True)
class TrainingJobView:
    """A snapshot of one job and its objects.

    Args:
        job: The job.
        pods: All pods that it controls.
        replicas: The replicas that it wants; none if it has ended, is suspended, or is invalid.
        templates: The claim templates of each role.
        invalid: Why nothing can be created for the job; empty if it is valid.
        has_service: Whether its Service exists.
        service_obstacle: What blocks its Service, or None.
        failures: Why objects could not be created, by role; the Service's under an empty name.
        queue: The state of its claims in the queue.
        active: How many jobs of the namespace have not ended.
    """

    job: TrainingJob
    pods: tuple[TrainingPod, ...] = ()
    replicas: tuple[ReplicaView, ...] = ()
    templates: Mapping[str, tuple[VolumeClaimTemplate, ...]] = field(default_factory=dict)
    invalid: str = ""
    has_service: bool = False
    service_obstacle: JobObstacle | None = None
    failures: Mapping[str, CreationFailure] = field(default_factory=dict)
    queue: QueueState = QueueState()
    active: int = 1
