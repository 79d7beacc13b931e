"""The workqueue key of a node."""

from collections.abc import Hashable
from dataclasses import dataclass

from controller.manager.controller import NODES_LANE


@dataclass(frozen=True, slots=True)
class NodeKey:
    """A node and its ModelNode."""

    name: str

    @property
    def lane(self) -> Hashable:
        """The fairness lane shared by all keys about nodes."""
        return NODES_LANE
