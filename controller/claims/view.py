"""All that is known of one model on a claim when it is decided about."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controller.claims.contention import ONE_POD, Wait, limit_of
from controller.claims.kinds import ClaimPod, Job, JobPod
from controller.placement.claim_place import ClaimPath
from controller.placement.demand import Demand
from shared.api.base_model import BaseModelStatus
from shared.api.core import PersistentVolumeClaim

NAMESPACE_LABEL = "larder.dev/allow-cluster-models"


@dataclass(frozen=True, slots=True)
class ReadingOrder:
    """A reading that is wanted: of which claim and sub-path, for which time, and the name of its Job."""

    identity: str
    attempt: int
    job: str


@dataclass(frozen=True, slots=True)
class ClaimView:
    """One model on a claim.

    `spec` is the object's, in JSON, without what is empty. `refused` is what the API server said where the controller
    may not look; `job_refused` where it may not make the Job. `allowed`: models of the whole cluster may be in this
    namespace. `users` are the pods that have the claim on a node, other than the Job's, `waits` those that wait for it,
    `starting`: pods that mount it do not run yet; all are looked for only where a claim is for one node or pod. `pods`
    are those of `job`.
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
        """Whether one pod alone may have the claim."""
        return limit_of(self.claim) == ONE_POD

    @property
    def one_node(self) -> bool:
        """Whether the pods of one node alone may have the claim."""
        return bool(limit_of(self.claim))
