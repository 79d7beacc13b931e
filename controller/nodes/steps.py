"""The steps that a removal and an eviction have in common. No input or output, no clock."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from controller.nodes.view import NodeView
from controller.state.keys import EntryKey
from shared.api.model_node import Entry, EntryState, EntryStatus, Phase


@dataclass(frozen=True, slots=True)
class Pace:
    """The waits of a removal, and how long a model is idle before one of its own priority may evict it, in seconds."""

    drain_s: float = 30
    users_s: float = 30
    idle_s: float = 3600


def told(view: NodeView) -> dict[EntryKey, EntryStatus]:
    """Return the agent's words, unless they are of another node that had this name."""
    if not view.model_node or view.model_node.status.node_uid != view.uid:
        return {}
    return {e.key: e for e in view.model_node.status.entries}


def turned(entry: Entry, state: EntryState, now: datetime) -> Entry:
    """Return the entry in a new state; what is Present again makes room for nobody."""
    present = state == EntryState.PRESENT
    mark = "" if present else entry.evicted_for
    return msgspec.structs.replace(
        entry, state=state, since=stamp(now), in_use=present, granted=False, evicted_for=mark
    )


def drains_for_s(view: NodeView, entry: Entry, now: datetime, pace: Pace) -> float | None:
    """Return in how many seconds new users have had time to be seen; None while the ready label is still there."""
    at = view.acknowledged.get(entry.key)
    if entry.state != EntryState.DRAINING or at is None:
        return None
    return (at + timedelta(seconds=pace.drain_s) - now).total_seconds()


def is_drained(view: NodeView, entry: Entry, now: datetime, pace: Pace) -> bool:
    """Return whether the agent has dropped the ready label, and new users have had time since to be seen."""
    left_s = drains_for_s(view, entry, now, pace)
    return left_s is not None and left_s <= 0


def is_gone(entry: Entry, statuses: Mapping[EntryKey, EntryStatus]) -> bool:
    """Return whether the agent has said of this state that nothing is left."""
    status = statuses.get(entry.key)
    return status is not None and status.observed == entry.state and status.phase == Phase.ABSENT


def stamp(now: datetime) -> str:
    """Return a time as it stands in a ModelNode."""
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")
