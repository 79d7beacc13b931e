"""Why a container's request does not fit on a node, as data and in words. No input or output."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

_LONGEST_REASON = 200


@dataclass(frozen=True, slots=True)
class Shortage:
    """A node has too little of a resource for a container; `used` includes the pod's use so far."""

    container: str
    resource: str
    requested: int
    used: int
    capacity: int

    def __str__(self) -> str:
        return (
            f"container {self.container}: {self.resource}: "
            f"requested {self.requested}, used {self.used}, capacity {self.capacity}"
        )


@dataclass(frozen=True, slots=True)
class SearchTooLong:
    """The search ran out of steps; a simpler request or a tree with fewer levels helps."""

    container: str
    steps: int

    def __str__(self) -> str:
        return (
            f"container {self.container}: no allocation found within {self.steps} steps; "
            "request fewer groups, or advertise fewer levels"
        )


@dataclass(frozen=True, slots=True)
class UnsupportedRequest:
    """A request that cannot be understood, or that no node in the cluster could serve."""

    container: str
    resource: str
    message: str

    def __str__(self) -> str:
        return f"container {self.container}: {self.resource}: {self.message}"


@dataclass(frozen=True, slots=True)
class PluginFailure:
    """A scheduler plugin raised, or returned something other than fit, reasons and score."""

    plugin: str
    message: str

    def __str__(self) -> str:
        return f"scheduler plugin {self.plugin}: {self.message}"


Reason: TypeAlias = Shortage | SearchTooLong | UnsupportedRequest | PluginFailure | str  # plugins return strings


def first_of(reasons: Sequence[str]) -> str:
    """Return the first reason, truncated to 200 characters, and the number of others."""
    more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
    return reasons[0][: _LONGEST_REASON - len(more)] + more
