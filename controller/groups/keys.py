"""Workqueue keys of node groups and of the grants."""

from collections.abc import Hashable
from dataclasses import dataclass

from controller.manager.controller import NODES_FLOW


@dataclass(frozen=True, slots=True)
class GroupKey:
    """A node group."""

    name: str

    @property
    def flow(self) -> Hashable:
        """The flow shared by all keys about nodes."""
        return NODES_FLOW


@dataclass(frozen=True, slots=True)
class GrantsKey:
    """The key for the downloads of all limited groups together."""

    @property
    def flow(self) -> Hashable:
        """The flow shared by all keys about nodes."""
        return NODES_FLOW
