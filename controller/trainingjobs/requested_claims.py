"""The claims of training jobs that wait in the provisioner's queue."""

from collections.abc import Callable
from dataclasses import dataclass, field

from controller.provisioning.provision_request import ProvisionRequest
from controller.provisioning.provisioner import Provisioner
from controller.trainingjobs.keys import ReplicaClaimKey, TrainingJobKey
from controller.trainingjobs.objects import JobReplica
from controller.trainingjobs.view import QueueState


@dataclass(slots=True)
class RequestedClaims:
    """The requests of each job that have been neither fulfilled nor withdrawn, in order."""

    provisioner: Provisioner
    _of: dict[TrainingJobKey, dict[ReplicaClaimKey, JobReplica]] = field(default_factory=dict, init=False)

    def is_requested(self, job: TrainingJobKey, claim: ReplicaClaimKey) -> bool:
        """Return whether a claim is queued."""
        return claim in self._of.get(job, ())

    def request(
        self, job: TrainingJobKey, claim: ReplicaClaimKey, replica: JobReplica, request: ProvisionRequest
    ) -> None:
        """Queue the creation of a claim for a replica, unless its namespace has too many in the queue."""
        if self.provisioner.request(request):
            self._of.setdefault(job, {})[claim] = replica

    def done(self, job: TrainingJobKey, claim: ReplicaClaimKey) -> None:
        """Drop a request that the provisioner has finished."""
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
        """Return the job's state in the queue."""
        claims = self._of.get(job, {})
        first = next(iter(claims), None)
        position = self.provisioner.position(first) if first is not None else None
        return QueueState(len(claims), position or 0)

    def clear(self) -> None:
        """Drop everything, because the queue is dropped, too."""
        self._of.clear()
