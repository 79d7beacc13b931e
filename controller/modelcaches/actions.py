"""What a reconcile of a ModelCache may do. No input or output, no clock."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from controller.manager.actions import AddFinalizer, DeleteClaim, RemoveFinalizer, Requeue, Resolve, Withdraw
from controller.modelcaches.job import DownloadOrder
from controller.modelcaches.objects import StorageManifest
from shared.api.model_cache import CacheStatus
from shared.kube.objects import Meta

DOWNLOADED = "Downloaded"  # reason of the condition Ready while it is true
BUSY_S, IDLE_S, RECHECK_S, REFUSED_S = 5.0, 300.0, 20.0, 60.0


@dataclass(frozen=True, slots=True)
class ProvisionStorage:
    """Create the claim, and its volume if Larder makes it, when their turn comes."""

    manifest: StorageManifest


@dataclass(frozen=True, slots=True)
class StartDownload:
    """Start the download."""

    order: DownloadOrder


@dataclass(frozen=True, slots=True)
class DeleteJob:
    """Delete the Job that was read, and its pods."""

    seen: Meta


@dataclass(frozen=True, slots=True)
class DeleteCacheVolume:
    """Delete the volume that was read."""

    seen: Meta


@dataclass(frozen=True, slots=True)
class ListClaimUsers:
    """List the pods that mount the claim live, and decide again."""


@dataclass(frozen=True, slots=True)
class WriteCacheStatus:
    """Report to the user.

    Args:
        state: The state in `status.storageStatus`.
        reason: Reason of the condition Ready.
        message: Message of the condition Ready.
        is_stalled: Whether nothing will change without manual action.
        fields: Other fields of the status that change.
    """

    state: CacheStatus
    reason: str
    message: str
    is_stalled: bool = False
    fields: Mapping[str, Any] = field(default_factory=dict)


Removal: TypeAlias = DeleteJob | DeleteClaim | DeleteCacheVolume
Action: TypeAlias = (
    AddFinalizer | RemoveFinalizer | Resolve | ProvisionStorage | Withdraw | StartDownload | Removal | ListClaimUsers
    | WriteCacheStatus | Requeue
)  # fmt: skip
