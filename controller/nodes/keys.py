"""What the queue calls a node."""

from collections.abc import Hashable
from dataclasses import dataclass

from controller.manager.controller import NODES_LANE


@dataclass(frozen=True, slots=True)
class NodeKey:
    """A node and its ModelNode."""

    name: str

    @property
    def lane(self) -> Hashable:
        """That of all that is about nodes."""
        return NODES_LANE
