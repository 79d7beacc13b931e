"""The workqueue key of a node with devices."""

from collections.abc import Hashable
from dataclasses import dataclass

from controller.manager.controller import NODES_FLOW


@dataclass(frozen=True, slots=True)
class DeviceNodeKey:
    """A node whose device annotation is to be checked."""

    name: str

    @property
    def flow(self) -> Hashable:
        """The flow that all nodes share."""
        return NODES_FLOW
