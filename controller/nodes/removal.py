"""The removal of unwanted files from a node. No input or output, no clock.

    Present ───── unused ─────► Draining ──── drained, unused, confirmed ────► Absent ──── agent: gone ────► no entry
       ▲                        │      ▲
       └──── drained, used ─────┘      └───── unused, confirmed ───── files that no entry names

Draining: the agent drops the ready label, so no new pods are scheduled. Drained: the label has been gone for
`RemovalTiming.drain_s`, so pods that were on their way have appeared. Used: the live list of the node's pods has users
of the files. Confirmed: live reads have proved that no object wants the files here.
"""

from dataclasses import dataclass

import msgspec

from controller.nodes.entry_states import is_gone, with_state
from controller.nodes.facts import Facts
from controller.state.keys import EntryKey
from shared.api.model_node import Entry, EntryState

_MAX_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class RemovalStep:
    """The new form of an entry (None: no entry), and the seconds until the next run if no event comes first."""

    entry: Entry | None
    requeue_s: float | None = None


def removal_steps(facts: Facts) -> list[RemovalStep]:
    """Return the next step of everything that should leave the node."""
    return [_step(facts, e) for e in facts.leaving] + [_unlisted_step(facts, key) for key in facts.unlisted]


def depends_on_users(facts: Facts) -> bool:
    """Return whether a next step depends on the node's pods."""
    return bool(facts.view.unwanted) or any(e.state == EntryState.PRESENT or facts.is_drained(e) for e in facts.leaving)


def removals_to_confirm(facts: Facts) -> frozenset[EntryKey]:
    """Return the files whose next step needs proof, by live reads, that no object wants them.

    At most `_MAX_AT_ONCE` entries, and only as many unlisted files as may leave besides the entries already leaving:
    an agent that reports thousands of files causes neither thousands of reads nor an oversized spec.
    """
    drained = sorted(e.key for e in facts.leaving if facts.is_drained(e) and not facts.has_users(e.key))
    available = max(0, _MAX_AT_ONCE - len(facts.leaving))
    return frozenset(drained[:_MAX_AT_ONCE] + sorted(facts.unlisted)[:available])


def _step(facts: Facts, entry: Entry) -> RemovalStep:
    used, users_s = facts.has_users(entry.key), facts.timing.users_s
    match entry.state:
        case EntryState.PRESENT if used:
            awaited = entry.key in facts.view.awaited
            return RemovalStep(msgspec.structs.replace(entry, in_use=True, awaited=awaited), users_s)
        case _ if not facts.view.has_report():
            return RemovalStep(None)  # no agent has run here; a later one would report its files as unlisted
        case EntryState.PRESENT:
            return RemovalStep(with_state(entry, EntryState.DRAINING, facts.now))
        case EntryState.DRAINING if not facts.is_drained(entry):
            return RemovalStep(entry, facts.drain_left_s(entry))
        case EntryState.DRAINING if used:
            return RemovalStep(with_state(entry, EntryState.PRESENT, facts.now), users_s)
        case EntryState.DRAINING if entry.key not in (facts.view.unwanted or ()):
            return RemovalStep(entry, users_s)  # the cache is stale; the watch will deliver the object that wants it
        case EntryState.DRAINING:
            return RemovalStep(with_state(entry, EntryState.ABSENT, facts.now))
        case EntryState.ABSENT if is_gone(entry, facts.reported):
            return RemovalStep(None)
        case _:  # the agent is removing it, or a newer controller wrote a state that this version does not know
            return RemovalStep(entry)


def _unlisted_step(facts: Facts, key: EntryKey) -> RemovalStep:
    if facts.has_users(key):
        return RemovalStep(None, facts.timing.users_s)
    if key not in (facts.view.unwanted or ()):
        return RemovalStep(None)
    return RemovalStep(with_state(Entry(id=key[0], revision=key[1]), EntryState.DRAINING, facts.now))
