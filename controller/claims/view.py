"""Everything that a decision about one model on a claim depends on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controller.claims.contention import ONE_POD, Wait, limit_of
from controller.jobs.observed_jobs import ClaimPod, Job, JobPod
from controller.placement.claim_place import ClaimPath
from controller.placement.demand import Demand
from shared.api.base_model import BaseModelStatus
from shared.api.core import PersistentVolumeClaim

NAMESPACE_LABEL = "larder.dev/allow-cluster-models"


@dataclass(frozen=True, slots=True)
class ClaimView:
    """One model on a claim.

    Attributes:
        spec: The object's spec, as JSON, without empty fields.
        refused: The API server's message if the controller may not read the claim.
        job_refused: The API server's message if the controller may not create the Job.
        allowed: Whether cluster-scoped models may use this namespace.
        users: The pods that hold the claim on a node, except the Job's; read only if a claim is for one node or pod.
        waits: The pods that wait for the claim; read together with `users`.
        starting: Whether pods that mount it are not running yet; read together with `users`.
        pods: The pods of `job`.
    """

    demand: Demand
    generation: int
    place: ClaimPath
    skip: bool
    spec: Mapping[str, Any]
    status: BaseModelStatus
    claim: PersistentVolumeClaim | None = None
    refused: str = ""
    allowed: bool = True
    waits_for_consumer: bool = False
    users: tuple[ClaimPod, ...] = ()
    waits: tuple[Wait, ...] = ()
    starting: bool = False
    job: Job | None = None
    job_refused: str = ""
    pods: tuple[JobPod, ...] = ()

    @property
    def modes(self) -> frozenset[str]:
        """The claim's access modes."""
        return frozenset(self.claim.spec.access_modes) if self.claim else frozenset()

    @property
    def one_pod(self) -> bool:
        """Whether only one pod may use the claim."""
        return limit_of(self.claim) == ONE_POD

    @property
    def one_node(self) -> bool:
        """Whether only pods of one node may use the claim."""
        return bool(limit_of(self.claim))
