"""What a decision on one claim is based on."""

from dataclasses import dataclass, field

from controller.provisioning.creation_failure import CreationFailure
from controller.volumes.keys import VolumeKey
from controller.volumes.objects import VolumeManifest
from shared.api.core import PersistentVolume, PersistentVolumeClaim, Pod


@dataclass(frozen=True, slots=True)
class VolumeView:
    """One claim, at one moment.

    Args:
        key: The claim.
        users: The watched pods that name the claim and have not ended, oldest first.
        manifest: What those pods need; None if it cannot be made, for the reason in `problem`.
        claim: The claim of that name, whoever created it.
        volume: The volume that Larder made for this claim, or None.
        is_ours: Whether Larder created the claim.
        problem: Reason and message if the pods cannot get their model this way.
        live_users: Whether a live list of the namespace's pods has users; None until it has been read.
        failure: Why the last attempt to create the objects failed.
        position: Place in the queue of claims to create; None if the claim is not queued.
        unused_s: How long the claim has had no users, in seconds.
        unbound_s: How long claim and volume have existed without being bound to each other, in seconds.
    """

    key: VolumeKey
    users: tuple[Pod, ...] = ()
    manifest: VolumeManifest | None = None
    claim: PersistentVolumeClaim | None = None
    volume: PersistentVolume | None = None
    is_ours: bool = False
    problem: tuple[str, str] = field(default=("", ""))
    live_users: bool | None = None
    failure: CreationFailure | None = None
    position: int | None = None
    unused_s: float = 0.0
    unbound_s: float = 0.0
