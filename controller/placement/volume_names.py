"""The names of volumes and PersistentVolumeClaims, and the annotation that maps a pod's claims to snapshots."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from shared.api.core import PersistentVolumeClaim
from shared.names import namespace_of

CLAIMS_ANNOTATION = "larder.dev/claims"  # on a pod: <claim>=<model id>@<revision>, comma-separated
MODEL_ANNOTATION = "larder.dev/model-snapshot"  # on a volume and its claim: <model id>@<revision>
VOLUME_LABEL = "larder.dev/volume"  # on every volume and claim of a model
_LONGEST_NAME = 253
_HASH_HEX = 10
_MAX_CLAIMS = 32
_LONGEST_TEXT = 16 * 1024


@dataclass(frozen=True, slots=True)
class SnapshotKey:
    """The files that a claim provides: a model id and a revision."""

    id: str
    revision: str

    def __str__(self) -> str:
        return f"{self.id}@{self.revision}"


def has_plain_name(wanted: SnapshotKey, claim_revision: str) -> bool:
    """Return whether the claim has just the name of the model, as for one revision of a cluster-scoped model."""
    return not namespace_of(wanted.id) and wanted.revision == claim_revision


def plain_name(wanted: SnapshotKey) -> str:
    """Return the name of the model."""
    return wanted.id.rpartition("_")[2]


def hashed_name(wanted: SnapshotKey) -> str:
    """Return a claim name that no other snapshot has."""
    return _with_hash(plain_name(wanted), f"{wanted.id}\0{wanted.revision}")


def waiting_name(wanted: SnapshotKey) -> str:
    """Return the name of the claim for pods that may wait on nodes without the snapshot: no other claim has it."""
    return _with_hash(plain_name(wanted), f"waiting\0{wanted.id}\0{wanted.revision}")


def hashed_claim(name: str, uid: str) -> str:
    """Return the name of an object's claim if another claim has the object's name."""
    return _with_hash(name, uid)


def volume_names(namespace: str, claim: str) -> tuple[str, str]:
    """Return the names for the volume of a claim: `<claim>-<namespace>`, and one for when that is taken or too long."""
    plain = f"{claim}-{namespace}"
    hashed = _with_hash(plain, f"{namespace}/{claim}")
    return (plain if len(plain) <= _LONGEST_NAME else hashed), hashed


def _with_hash(name: str, unique: str) -> str:
    digest = hashlib.sha256(unique.encode()).hexdigest()[:_HASH_HEX]
    return f"{name[: _LONGEST_NAME - _HASH_HEX - 1].rstrip('.-')}-{digest}"


def write_claims(claims: Mapping[str, SnapshotKey]) -> str:
    """Format the annotation of a pod."""
    return ",".join(f"{claim}={wanted}" for claim, wanted in sorted(claims.items()))


def read_claims(annotations: Mapping[str, str]) -> dict[str, SnapshotKey]:
    """Return the claims in a pod's annotation.

    Anyone may write one: a malformed part is ignored, and so is an annotation of more than 32 parts or 16 KiB.
    """
    text = annotations.get(CLAIMS_ANNOTATION, "")
    if len(text) > _LONGEST_TEXT or text.count(",") >= _MAX_CLAIMS:
        return {}
    found: dict[str, SnapshotKey] = {}
    for part in text.split(","):
        claim, _, snapshot = part.strip().partition("=")
        identity, _, revision = snapshot.partition("@")
        if claim and identity and revision and "@" not in revision:
            found[claim] = SnapshotKey(identity, revision)
    return found


def is_our_claim(claim: PersistentVolumeClaim) -> bool:
    """Return whether Larder created a claim: it has our label, and names a volume as we name them."""
    meta = claim.metadata
    return VOLUME_LABEL in meta.labels and claim.spec.volume_name in volume_names(meta.namespace, meta.name)
