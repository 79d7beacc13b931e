"""Derives the store's models and space from an observation and the disk usage."""

import asyncio
from dataclasses import dataclass, field

from agent.reconciler.observation import Observation
from agent.reconciler.state_cache import Space


@dataclass(frozen=True, slots=True)
class StoreContents:
    """The models that pods may use here, and the size of the store.

    `used_bytes` are not available for more models: they are stored, reserved, or used by others on the same disk.
    """

    ready: tuple[str, ...] = ()
    capacity_bytes: int = 0
    allocatable_bytes: int = 0
    used_bytes: int = 0


def contents_of(observation: Observation, space: Space) -> StoreContents:
    """Return the store's current offer.

    A model is ready while its snapshot is intact and the Node has its labels, so the offer agrees with the labels.
    """
    ready = {key[0] for key in observation.held if observation.is_intact(key) and observation.has_labels(key)}
    capacity = space.limit or space.disk_size
    allocatable = min(capacity, max(0, space.disk_size - space.floor))
    free = min(allocatable - space.used, space.disk_free - space.floor) - space.reserved
    return StoreContents(tuple(sorted(ready)), capacity, allocatable, allocatable - max(0, free))


@dataclass(slots=True)
class LatestContents:
    """The contents after the last pass of the agent's loop.

    `known` is set after the first pass that follows the initial list, when the limit and the labels are right;
    `changed` is set whenever the ready models change.
    """

    value: StoreContents = StoreContents()
    known: asyncio.Event = field(default_factory=asyncio.Event)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def note(self, observation: Observation, space: Space) -> None:
        """Record the result of a pass."""
        before, self.value = self.value, contents_of(observation, space)
        if observation.synced:
            self.known.set()
        if before.ready != self.value.ready:
            self.changed.set()
