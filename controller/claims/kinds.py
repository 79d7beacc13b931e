"""The little that is read of Jobs, their pods, and the pods that use a claim."""

from typing import Any

from shared.api.core import Observed, ObservedStatus
from shared.api.meta import ApiStruct
from shared.kube.objects import Object


class JobStatus(ObservedStatus, frozen=True, kw_only=True):
    """How a Job ended, if it did; how many of its pods failed, and how many are on their way out."""

    failed: int = 0
    terminating: int = 0


class Job(Object, frozen=True, kw_only=True):
    """A Job."""

    status: JobStatus = JobStatus()

    @property
    def end(self) -> Observed | None:
        """The condition that says that it is over, None while it is not.

        FailureTarget comes before Failed: its pods are being taken away, and no other is made.
        """
        holds = [c for c in self.status.conditions if c.status == "True"]
        return next((c for kind in ("Complete", "Failed", "FailureTarget") for c in holds if c.type == kind), None)


class Waiting(ApiStruct, frozen=True, kw_only=True):
    """Why a container does not run yet."""

    reason: str = ""
    message: str = ""


class Terminated(ApiStruct, frozen=True, kw_only=True):
    """How a container ended; `message` is what it handed in."""

    exit_code: int = 0
    reason: str = ""
    message: str = ""


class ContainerState(ApiStruct, frozen=True, kw_only=True):
    """One of the two, or neither while it runs."""

    waiting: Waiting | None = None
    terminated: Terminated | None = None


class ContainerStatus(ApiStruct, frozen=True, kw_only=True):
    """A container."""

    state: ContainerState = ContainerState()


class PodStatus(ObservedStatus, frozen=True, kw_only=True):
    """Where a pod stands."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    container_statuses: list[ContainerStatus] = []


class JobPod(Object, frozen=True, kw_only=True):
    """A pod of a metadata Job; it has one container."""

    status: PodStatus = PodStatus()

    @property
    def state(self) -> ContainerState:
        """The state of its container."""
        return next((c.state for c in self.status.container_statuses), ContainerState())


class ClaimSource(ApiStruct, frozen=True, kw_only=True):
    """A claim as a pod names it."""

    claim_name: str = ""


class ClaimVolume(ApiStruct, frozen=True, kw_only=True):
    """A pod's volume, where it is a claim."""

    persistent_volume_claim: ClaimSource = ClaimSource()


class ClaimPodSpec(ApiStruct, frozen=True, kw_only=True):
    """Where a pod is, and what it mounts."""

    node_name: str = ""
    tolerations: list[dict[str, Any]] = []
    volumes: list[ClaimVolume] = []


class ClaimPod(Object, frozen=True, kw_only=True):
    """A pod that may use a claim."""

    spec: ClaimPodSpec = ClaimPodSpec()
    status: PodStatus = PodStatus()

    def names(self, claim: str) -> bool:
        """Return whether it mounts a claim, or will."""
        return any(v.persistent_volume_claim.claim_name == claim for v in self.spec.volumes)

    def uses(self, claim: str) -> bool:
        """Return whether it mounts a claim and has a node, which is when the claim is taken."""
        return bool(self.spec.node_name) and self.names(claim)
