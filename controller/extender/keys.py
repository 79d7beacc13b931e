"""The workqueue key of a node with devices."""

from collections.abc import Hashable
from dataclasses import dataclass

from controller.manager.controller import NODES_FLOW


@dataclass(frozen=True, slots=True)
class DeviceNodeKey:
    """A node whose device annotation is to be looked at."""

    name: str

    @property
    def flow(self) -> Hashable:
        """That of all nodes."""
        return NODES_FLOW
