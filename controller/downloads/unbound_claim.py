"""Why the claim of a download has no volume. No input or output, no clock."""

from datetime import datetime, timedelta

from shared.api.core import PersistentVolumeClaim, StorageClass

_SELECTED_NODE = "volume.kubernetes.io/selected-node"  # on a claim whose pod the scheduler has placed
_NOT_BOUND_AFTER = timedelta(seconds=60)


def lost_reason(claim: PersistentVolumeClaim) -> tuple[str, str] | None:
    """Return the reason and the message if the volume of a claim is gone, else None."""
    if claim.status.phase != "Lost":
        return None
    name = claim.metadata.name
    return "ClaimLost", f"claim {name} lost its volume; delete the claim, and Larder downloads the model again"


def unbound_reason(
    claim: PersistentVolumeClaim | None, storage_class: StorageClass | None, now: datetime, remedy: str
) -> tuple[str, str] | None:
    """Return the reason and the message if a claim will not be bound unless someone acts, else None.

    Args:
        claim: The claim; None if there is none.
        storage_class: Its class; None if that does not exist.
        now: The time.
        remedy: What the claim's owner can do to get another class.
    """
    if claim is None or claim.status.phase == "Bound":
        return None
    name, wanted = claim.metadata.name, claim.spec.storage_class_name
    if (lost := lost_reason(claim)) is not None:
        return lost
    if not wanted:
        return "StorageClassNotFound", f"claim {name} has no storage class, and the cluster has no default; {remedy}"
    if storage_class is None:
        message = f"claim {name} waits for StorageClass {wanted!r}, which does not exist; create it, or {remedy}"
        return "StorageClassNotFound", message
    node = claim.metadata.annotations.get(_SELECTED_NODE, "")
    if storage_class.volume_binding_mode == "WaitForFirstConsumer" and not node:
        return None  # the Job's pod says what it waits for
    age = now - datetime.fromisoformat(claim.metadata.creation_timestamp)
    if age < _NOT_BOUND_AFTER:
        return None
    where, minutes = f" on node {node}" if node else "", int(age.total_seconds() // 60)
    message = (
        f"claim {name} has not been bound for {minutes} min: provisioner {storage_class.provisioner} of StorageClass "
        f"{wanted!r} has created no volume{where}; check that the provisioner runs, see kubectl describe pvc {name} -n "
        f"{claim.metadata.namespace}, or {remedy}"
    )
    return "ClaimNotBound", message
