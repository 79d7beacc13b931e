"""What a decision on the claims of one pod is based on."""

from dataclasses import dataclass
from enum import Enum
from typing import Any

from controller.provisioning.creation_failure import CreationFailure
from controller.replica_claims.keys import ReplicaPodKey
from shared.api.core import Pod


class ClaimState(Enum):
    """Whether a pod can have a claim."""

    MISSING = "missing"
    LEAVING = "leaving"  # it was deleted, and goes when nothing uses it
    TAKEN = "taken"  # an object of another owner has the name
    READY = "ready"  # it exists; it may be bound only once the pod has a node


@dataclass(frozen=True, slots=True)
class ReplicaClaim:
    """A claim that a pod needs.

    Args:
        name: Its name.
        body: The claim to create.
        state: Whether it exists.
        holder: The controller of a claim with this name that is not ours; empty if it has none.
        failure: Why the last attempt to create it failed.
    """

    name: str
    body: dict[str, Any]
    state: ClaimState = ClaimState.MISSING
    holder: str = ""
    failure: CreationFailure | None = None


@dataclass(frozen=True, slots=True)
class ReplicaPodView:
    """One pod, at one moment.

    Args:
        key: The pod.
        pod: The pod; None if it is gone or has started.
        gated: Whether it has Larder's gate.
        queued: Whether it waits for a quota behind a gate of Kueue.
        claims: The claims that it needs.
        problem: Reason and message if it cannot have any.
    """

    key: ReplicaPodKey
    pod: Pod | None = None
    gated: bool = False
    queued: bool = False
    claims: tuple[ReplicaClaim, ...] = ()
    problem: tuple[str, str] = ("", "")
