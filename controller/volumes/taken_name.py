"""What to do if the claim of a pod's model cannot be created because another claim has its name. No input or output."""

from controller.placement.volume_names import SnapshotKey, plain_name


def advice_on_taken_name(claim: str, wanted: SnapshotKey | None) -> str:
    """Return what to do about the other claim.

    Pods get a claim with a hash in its name if the name of the model is taken. If the taken name has the hash already,
    a successor of the pod would get the same one.
    """
    advice = f"delete claim {claim} if nobody needs its data"
    if wanted is None or claim != plain_name(wanted):
        return advice
    return f"{advice}, or delete the pod: its successor gets another name"
