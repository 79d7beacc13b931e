"""The names of volumes and claims, and the annotation that maps a pod's claims to snapshots."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from shared.names import namespace_of

CLAIMS_ANNOTATION = "larder.dev/claims"  # on a pod: <claim>=<model id>@<revision>[@<variant>], comma-separated
MODEL_ANNOTATION = "larder.dev/model-snapshot"  # on a volume and its claim: <model id>@<revision>
VOLUME_LABEL = "larder.dev/volume"  # on every volume and claim of a model
_LONGEST_NAME = 253
_HASH_HEX = 10


@dataclass(frozen=True, slots=True)
class SnapshotVolume:
    """The files that a claim stands for.

    Args:
        id: The model id.
        revision: The revision.
        variant: Distinguishes volumes of one snapshot with different node terms; empty for the snapshot's own label.
    """

    id: str
    revision: str
    variant: str = ""

    def __str__(self) -> str:
        return "@".join(part for part in (self.id, self.revision, self.variant) if part)


def has_plain_name(wanted: SnapshotVolume, claim_revision: str) -> bool:
    """Return whether the claim is named after the model alone: one revision of a cluster-scoped model is."""
    return not namespace_of(wanted.id) and not wanted.variant and wanted.revision == claim_revision


def plain_name(wanted: SnapshotVolume) -> str:
    """Return the name of the model."""
    return wanted.id.rpartition("_")[2]


def hashed_name(wanted: SnapshotVolume) -> str:
    """Return a claim name that no other snapshot or variant has."""
    return _with_hash(plain_name(wanted), f"{wanted.id}\0{wanted.revision}\0{wanted.variant}")


def volume_names(namespace: str, claim: str) -> tuple[str, str]:
    """Return the names that the volume of a claim may have: the proposal's, and one if that is taken or too long."""
    plain = f"{claim}-{namespace}"
    hashed = _with_hash(plain, f"{namespace}/{claim}")
    return (plain if len(plain) <= _LONGEST_NAME else hashed), hashed


def _with_hash(name: str, unique: str) -> str:
    digest = hashlib.sha256(unique.encode()).hexdigest()[:_HASH_HEX]
    return f"{name[: _LONGEST_NAME - _HASH_HEX - 1].rstrip('.-')}-{digest}"


def write_claims(claims: Mapping[str, SnapshotVolume]) -> str:
    """Format the annotation of a pod."""
    return ",".join(f"{claim}={wanted}" for claim, wanted in sorted(claims.items()))


def read_claims(annotations: Mapping[str, str]) -> dict[str, SnapshotVolume]:
    """Return the claims in a pod's annotation; a malformed part is ignored, for anyone may write one."""
    found: dict[str, SnapshotVolume] = {}
    for part in annotations.get(CLAIMS_ANNOTATION, "").split(","):
        claim, _, text = part.strip().partition("=")
        identity, _, rest = text.partition("@")
        revision, _, variant = rest.partition("@")
        if claim and identity and revision:
            found[claim] = SnapshotVolume(identity, revision, variant)
    return found
