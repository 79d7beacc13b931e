"""Keys of the training jobs feature."""

from dataclasses import dataclass

from controller.manager.keys import NamespacedKey


@dataclass(frozen=True, slots=True)
class TrainingJobKey(NamespacedKey):
    """A TrainingJob."""


@dataclass(frozen=True, slots=True)
class ReplicaClaimKey:
    """A claim to create for a replica of the job with this uid."""

    namespace: str
    claim: str
    job_uid: str
