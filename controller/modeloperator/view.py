"""Everything that a decision about one Model depends on."""

from dataclasses import dataclass

from controller.jobs.observed_jobs import Job, JobPod
from controller.provisioning.creation_failure import CreationFailure
from shared.api.core import PersistentVolumeClaim, StorageClass
from shared.api.model import Model


@dataclass(frozen=True, slots=True)
class ModelObjectView:
    """One Model, at one moment.

    Args:
        model: The object.
        wanted: Digest of the source and version to download; empty if the source is invalid.
        problem: What is wrong with the spec, as reason and message.
        claim: The claim with the Model's name.
        storage_class: The claim's class; read while the claim waits for its volume.
        creation_failure: Why the last attempt to create the claim failed.
        position: Place in the queue of claims to create; None if the claim is not queued.
        job: The Job with the Model's name.
        pods: Its pods.
        job_refused: Why the Job cannot be created.
        percent: Progress that the Job's pod reported.
        mounted: Directories on the claim that pods mount; None if all of them may be in use, or if no Job is due.
        node: The node whose pods mount the claim; empty if there is none, or if several nodes may mount it.
        growth_refused: Why the claim cannot be grown.
    """

    model: Model
    wanted: str = ""
    problem: tuple[str, str] | None = None
    claim: PersistentVolumeClaim | None = None
    storage_class: StorageClass | None = None
    creation_failure: CreationFailure | None = None
    position: int | None = None
    job: Job | None = None
    pods: tuple[JobPod, ...] = ()
    job_refused: str = ""
    percent: int = 0
    mounted: frozenset[str] | None = None
    node: str = ""
    growth_refused: str = ""

    @property
    def served(self) -> str:
        """Digest of the complete download on the existing claim; empty if there is none."""
        return self.model.status.downloaded if self._has_known_claim else ""

    @property
    def root(self) -> str:
        """Digest of the download that the root of the existing claim is for; empty if none has begun there."""
        return self.model.status.root_download if self._has_known_claim else ""

    @property
    def has_other_files(self) -> bool:
        """Whether the claim may have files of another source or version, which must not mix with those to download."""
        return bool(self.served) or self.root not in ("", self.wanted)

    @property
    def _has_known_claim(self) -> bool:
        return self.claim is not None and self.claim.metadata.uid == self.model.status.claim_uid
