"""The input of a decision on one pod's claims."""

from dataclasses import dataclass
from enum import Enum
from typing import Any

from controller.provisioning.creation_failure import CreationFailure
from controller.replica_claims.keys import ReplicaPodKey
from shared.api.core import Pod


class ClaimState(Enum):
    """The state of a claim, from a pod's point of view."""

    MISSING = "missing"
    LEAVING = "leaving"  # it was deleted, and disappears once nothing uses it
    TAKEN = "taken"  # an object of another owner has the name
    READY = "ready"  # it exists; many are bound only once the pod has a node


@dataclass(frozen=True, slots=True)
class ReplicaClaim:
    """A claim that a pod needs.

    Args:
        name: Its name.
        body: The claim to create.
        state: Whether it exists.
        holder: The controller of the existing claim, for messages; empty if it has none.
        failure: Why the last attempt to create it failed.
    """

    name: str
    body: dict[str, Any]
    state: ClaimState = ClaimState.MISSING
    holder: str = ""
    failure: CreationFailure | None = None


@dataclass(frozen=True, slots=True)
class ReplicaPodView:
    """A snapshot of one pod and its claims.

    Args:
        key: The pod.
        pod: The pod; None if it is gone or has started.
        gated: Whether it has Larder's gate.
        queued: Whether a gate of Kueue holds it until it gets quota.
        claims: The claims that it needs.
        problem: Reason and message if it cannot get claims; otherwise two empty strings.
    """

    key: ReplicaPodKey
    pod: Pod | None = None
    gated: bool = False
    queued: bool = False
    claims: tuple[ReplicaClaim, ...] = ()
    problem: tuple[str, str] = ("", "")
