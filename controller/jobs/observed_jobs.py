"""The fields that Larder reads from Jobs, their pods, and pods that use a claim."""

from typing import Any

import msgspec

from shared.api.core import ObservedCondition, ObservedStatus
from shared.api.meta import ApiStruct
from shared.kube.objects import Object

JOB_NAME_LABEL = "batch.kubernetes.io/job-name"  # of the pods of a Job


class JobStatus(ObservedStatus, frozen=True, kw_only=True):
    """How a Job ended, if it did; how many of its pods failed, and how many are terminating."""

    failed: int = 0
    terminating: int = 0
    completion_time: str = ""


class Job(Object, frozen=True, kw_only=True):
    """A Job."""

    status: JobStatus = JobStatus()

    @property
    def end(self) -> ObservedCondition | None:
        """The condition that ended it, or None.

        FailureTarget comes before Failed: its pods are being deleted, and no new ones are created.
        """
        holds = [c for c in self.status.conditions if c.status == "True"]
        return next((c for kind in ("Complete", "Failed", "FailureTarget") for c in holds if c.type == kind), None)


class Waiting(ApiStruct, frozen=True, kw_only=True):
    """Why a container is not running yet."""

    reason: str = ""
    message: str = ""


class Terminated(ApiStruct, frozen=True, kw_only=True):
    """How a container ended; `message` is its termination message."""

    exit_code: int = 0
    reason: str = ""
    message: str = ""


class ContainerState(ApiStruct, frozen=True, kw_only=True):
    """Waiting or terminated, or neither while it runs."""

    waiting: Waiting | None = None
    terminated: Terminated | None = None


class ContainerStatus(ApiStruct, frozen=True, kw_only=True):
    """The status of a container."""

    state: ContainerState = ContainerState()


class PodStatus(ObservedStatus, frozen=True, kw_only=True):
    """The status of a pod."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    container_statuses: list[ContainerStatus] = []
    pod_ip: str = msgspec.field(name="podIP", default="")


class JobPod(Object, frozen=True, kw_only=True):
    """A pod of one of Larder's Jobs, which have one container."""

    status: PodStatus = PodStatus()

    @property
    def state(self) -> ContainerState:
        """The state of its container."""
        return next((c.state for c in self.status.container_statuses), ContainerState())


class ClaimSource(ApiStruct, frozen=True, kw_only=True):
    """A reference to a claim in a pod."""

    claim_name: str = ""


class ClaimVolume(ApiStruct, frozen=True, kw_only=True):
    """A pod's volume, if it is a claim."""

    persistent_volume_claim: ClaimSource = ClaimSource()


class ClaimPodSpec(ApiStruct, frozen=True, kw_only=True):
    """The node of a pod, its tolerations and its volumes."""

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
        """Return whether it mounts a claim and is scheduled to a node, which is when it takes the claim."""
        return bool(self.spec.node_name) and self.names(claim)
