"""The workqueue key of a node."""

from collections.abc import Hashable
from dataclasses import dataclass

from controller.manager.controller import NODES_FLOW


@dataclass(frozen=True, slots=True)
class NodeKey:
    """A node and its ModelNode."""

    name: str

    @property
    def flow(self) -> Hashable:
        """The flow shared by all keys about nodes."""
        return NODES_FLOW
