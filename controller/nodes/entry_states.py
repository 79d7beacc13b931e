"""States of entries, shared by removals and evictions. No input or output, no clock."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import msgspec

from controller.state.keys import EntryKey
from shared.api.model_node import Entry, EntryState, EntryStatus, Phase
from shared.kube.objects import timestamp


@dataclass(frozen=True, slots=True)
class RemovalTiming:
    """The delays of a removal, and how long a model must be idle until one of equal priority may evict it; in s."""

    drain_s: float = 30
    users_s: float = 30
    idle_s: float = 3600


def with_state(entry: Entry, state: EntryState, now: datetime) -> Entry:
    """Return the entry in a new state; becoming Present ends its eviction."""
    present = state == EntryState.PRESENT
    evicted_for = "" if present else entry.evicted_for
    return msgspec.structs.replace(
        entry,
        state=state,
        since=timestamp(now),
        in_use=present,
        awaited=entry.awaited and present,
        granted=False,
        evicted_for=evicted_for,
    )


def is_gone(entry: Entry, reported: Mapping[EntryKey, EntryStatus]) -> bool:
    """Return whether the agent has seen this state of the entry and has removed all of its files."""
    status = reported.get(entry.key)
    return status is not None and status.observed == entry.state and status.phase == Phase.ABSENT
