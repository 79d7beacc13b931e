"""What the queue calls a node group, and all of their downloads."""

from collections.abc import Hashable
from dataclasses import dataclass

from controller.manager.controller import NODES_LANE


@dataclass(frozen=True, slots=True)
class GroupKey:
    """A node group."""

    name: str

    @property
    def lane(self) -> Hashable:
        """That of all that is about nodes."""
        return NODES_LANE


@dataclass(frozen=True, slots=True)
class GrantsKey:
    """The downloads of all limited groups together."""

    @property
    def lane(self) -> Hashable:
        """That of all that is about nodes."""
        return NODES_LANE
