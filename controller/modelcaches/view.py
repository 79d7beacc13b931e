"""Everything that a decision about one ModelCache depends on."""

from dataclasses import dataclass

from controller.jobs.observed_jobs import Job, JobPod
from controller.models.view import Obstacle
from controller.placement.demand import Demand, Resolution
from controller.provisioning.creation_failure import CreationFailure
from shared.api.core import PersistentVolume, PersistentVolumeClaim, StorageClass
from shared.api.model_cache import ModelCache


@dataclass(frozen=True, slots=True)
class ModelCacheView:
    """One cache, at one moment.

    Args:
        cache: The object.
        demand: What it asks for.
        has_finalizer: Whether its deletion waits for Larder.
        problems: What is wrong with the spec, as reason and message.
        claim_name: Name of its claim.
        claim: The claim of that name.
        is_ours: Whether Larder created the claim for this cache.
        volume: The volume that Larder created for this cache, because of its pvSpec.
        storage_class: The claim's class; read while the claim waits for its volume.
        creation_failure: Why the last attempt to create the claim failed.
        position: Place in the queue of claims to create; None if the claim is not queued.
        may_be_created: Whether its claim or volume is queued or being created, so that it may exist without being seen.
        answer: A resolution that the status has not recorded yet.
        failure: Why the source could not be resolved.
        may_resolve: Whether the next resolution is due.
        job: The Job of the current attempt.
        pods: Its pods.
        outdated_job: A Job that still runs for an earlier revision or spec; only if the current attempt has none.
        job_refused: Why the Job cannot be created.
        secret_refused: Why the Secret that the Job uses may not be used any more.
        percent: Progress that the Job's pod reported.
        waits_for: Why the download has to wait for others; empty if it may start.
        users: Pods that mount the claim, listed live; None until they are needed.
        limit_bytes_s: Limit of the download's rate; 0 for none.
    """

    cache: ModelCache
    demand: Demand
    has_finalizer: bool = True
    problems: tuple[tuple[str, str], ...] = ()
    claim_name: str = ""
    claim: PersistentVolumeClaim | None = None
    is_ours: bool = False
    volume: PersistentVolume | None = None
    storage_class: StorageClass | None = None
    creation_failure: CreationFailure | None = None
    position: int | None = None
    may_be_created: bool = False
    answer: Resolution | None = None
    failure: Obstacle | None = None
    may_resolve: bool = True
    job: Job | None = None
    pods: tuple[JobPod, ...] = ()
    outdated_job: Job | None = None
    job_refused: str = ""
    secret_refused: str = ""
    percent: int = 0
    waits_for: str = ""
    users: tuple[str, ...] | None = None
    limit_bytes_s: int = 0

    @property
    def claim_uid(self) -> str:
        """The uid of its claim; empty if it has none."""
        return self.claim.metadata.uid if self.claim is not None and self.is_ours else ""

    @property
    def is_complete(self) -> bool:
        """Whether the existing claim has every file."""
        status = self.cache.status
        return bool(status.serving_revision and self.claim_uid and status.claim_uid == self.claim_uid)
