"""The claims of training jobs that wait in the provisioner's queue."""

from collections.abc import Callable
from dataclasses import dataclass, field

from controller.provisioning.provision_request import ProvisionRequest
from controller.provisioning.provisioner import Provisioner
from controller.trainingjobs.keys import ReplicaClaimKey, TrainingJobKey
from controller.trainingjobs.replicas import JobReplica
from controller.trainingjobs.view import QueueState


@dataclass(slots=True)
class RequestedClaims:
    """What was requested for each job and has neither been created nor withdrawn, in the order of the requests."""

    provisioner: Provisioner
    _of: dict[TrainingJobKey, dict[ReplicaClaimKey, JobReplica]] = field(default_factory=dict, init=False)

    def is_requested(self, job: TrainingJobKey, claim: ReplicaClaimKey) -> bool:
        """Return whether a claim waits."""
        return claim in self._of.get(job, ())

    def request(
        self, job: TrainingJobKey, claim: ReplicaClaimKey, replica: JobReplica, request: ProvisionRequest
    ) -> None:
        """Queue the creation of a claim for a replica, unless its namespace has too many in the queue."""
        if self.provisioner.request(request):
            self._of.setdefault(job, {})[claim] = replica

    def done(self, job: TrainingJobKey, claim: ReplicaClaimKey) -> None:
        """Drop a request that the provisioner has ended."""
        claims = self._of.get(job, {})
        claims.pop(claim, None)
        if not claims:
            self._of.pop(job, None)

    def withdraw(self, job: TrainingJobKey, which: Callable[[JobReplica], bool]) -> None:
        """Withdraw the requests for some replicas of a job."""
        for claim, replica in list(self._of.get(job, {}).items()):
            if which(replica):
                self.done(job, claim)
                self.provisioner.withdraw(claim)

    def state(self, job: TrainingJobKey) -> QueueState:
        """Return how far the queue is for a job."""
        claims = self._of.get(job, {})
        first = next(iter(claims), None)
        position = self.provisioner.position(first) if first is not None else None
        return QueueState(len(claims), position or 0)

    def clear(self) -> None:
        """Drop everything, because the queue is lost as well."""
        self._of.clear()
