"""Actions that several reconcilers share."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shared.kube.objects import Meta


@dataclass(frozen=True, slots=True)
class Requeue:
    """Requeue after a delay, whatever else happens."""

    after_s: float


@dataclass(frozen=True, slots=True)
class WriteSpec:
    """Set fields of the spec; None removes a field that Larder set."""

    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class AddFinalizer:
    """Hold the object's deletion until Larder has cleaned up."""


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Release the object: nothing is left to clean up, or no node will answer."""


@dataclass(frozen=True, slots=True)
class Resolve:
    """Ask the source for its commit and file list; the answer arrives in a later view."""


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Remove a creation that still waits for its turn."""


@dataclass(frozen=True, slots=True)
class DeleteClaim:
    """Delete the claim that was read."""

    seen: Meta
