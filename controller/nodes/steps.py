"""What removals and evictions have in common. No input or output, no clock."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import msgspec

from controller.state.keys import EntryKey
from shared.api.model_node import Entry, EntryState, EntryStatus, Phase


@dataclass(frozen=True, slots=True)
class RemovalTiming:
    """The waits of a removal, and how long a model is idle before one of its own priority may evict it, in seconds."""

    drain_s: float = 30
    users_s: float = 30
    idle_s: float = 3600


def with_state(entry: Entry, state: EntryState, now: datetime) -> Entry:
    """Return the entry in a new state; what is Present again makes room for nobody."""
    present = state == EntryState.PRESENT
    evicted_for = "" if present else entry.evicted_for
    return msgspec.structs.replace(
        entry, state=state, since=timestamp(now), in_use=present, granted=False, evicted_for=evicted_for
    )


def is_gone(entry: Entry, reported: Mapping[EntryKey, EntryStatus]) -> bool:
    """Return whether the agent has seen this state of the entry, and has no files of it left."""
    status = reported.get(entry.key)
    return status is not None and status.observed == entry.state and status.phase == Phase.ABSENT


def timestamp(now: datetime) -> str:
    """Return a time as ModelNodes have it."""
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")
