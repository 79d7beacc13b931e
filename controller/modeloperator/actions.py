"""What a reconcile of a Model may do. No input or output, no clock."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from controller.manager.actions import Requeue, Withdraw
from controller.modeloperator.download_end import DownloadEnd
from controller.modeloperator.objects import ModelDownload
from shared.api.model import ModelPhase


@dataclass(frozen=True, slots=True)
class ProvisionClaim:
    """Create the claim when its turn comes."""


@dataclass(frozen=True, slots=True)
class GrowClaim:
    """Make the claim request a larger volume."""

    size: str


@dataclass(frozen=True, slots=True)
class StartModelDownload:
    """Create the Job."""

    download: ModelDownload


@dataclass(frozen=True, slots=True)
class DeleteModelJob:
    """Delete the Job and its pods."""


@dataclass(frozen=True, slots=True)
class WriteModelStatus:
    """Report to the user.

    Args:
        phase: The specification's phase.
        reason: Reason of the condition Ready.
        message: `status.message`, and the message of the condition.
        is_stalled: Whether nothing will change without manual action.
        update: Reason and message of the condition Updating, while another version is wanted.
        resizing: Reason and message of the condition Resizing, while the claim has another size than wanted.
        fields: Other fields of the status that change.
        ended: The download that this reports as complete or failed.
    """

    phase: ModelPhase
    reason: str
    message: str
    is_stalled: bool = False
    update: tuple[str, str] | None = None
    resizing: tuple[str, str] | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)
    ended: DownloadEnd | None = None


Action: TypeAlias = (
    ProvisionClaim | Withdraw | GrowClaim | StartModelDownload | DeleteModelJob | WriteModelStatus | Requeue
)  # fmt: skip
