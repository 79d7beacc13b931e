"""The facts behind every decision on a node, derived once from a view. No input or output, no clock."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from controller.nodes.entry_states import RemovalTiming
from controller.nodes.view import NodeView
from controller.nodes.wanted import kept_entry, wanted_entries
from controller.state.keys import EntryKey
from shared.api.model_node import Entry, EntryState, EntryStatus, Phase


@dataclass(frozen=True, slots=True)
class Facts:
    """A view at one moment, classified: each listed entry is in exactly one of `wanted`, `kept` and `leaving`.

    Attributes:
        view: What was observed; `view.users` and `view.unwanted` are None until they have been read live.
        listed: The entries of the ModelNode as it is.
        reported: What the agent reports about each entry.
        wanted: Entries that objects want, listed or new, in their desired form unless an eviction changes them.
        kept: Listed entries that no object wants but that stay (reserved or retained), in their desired form.
        leaving: Listed entries, as they are, whose files should leave the node.
        unlisted: Files on the node that have no entry and that no object wants, except files of retained objects.
    """

    view: NodeView
    now: datetime
    timing: RemovalTiming
    listed: Mapping[EntryKey, Entry]
    reported: Mapping[EntryKey, EntryStatus]
    wanted: Mapping[EntryKey, Entry]
    kept: Mapping[EntryKey, Entry]
    leaving: tuple[Entry, ...]
    unlisted: frozenset[EntryKey]

    def has_users(self, key: EntryKey) -> bool:
        """Return whether the live list of pods has users of an entry; False until the list has been read."""
        return bool((self.view.users or {}).get(key))

    def drain_left_s(self, entry: Entry) -> float | None:
        """Return the seconds left in which late users may appear; None until the agent has dropped the ready label."""
        acknowledged_at = self.view.acknowledged.get(entry.key)
        if entry.state != EntryState.DRAINING or acknowledged_at is None:
            return None
        return (acknowledged_at + timedelta(seconds=self.timing.drain_s) - self.now).total_seconds()

    def is_drained(self, entry: Entry) -> bool:
        """Return whether the ready label has been gone long enough for all late users to have appeared."""
        left_s = self.drain_left_s(entry)
        return left_s is not None and left_s <= 0

    def frees_bytes(self, key: EntryKey) -> int:
        """Return the bytes that removing an entry would free on disk."""
        return self.reported[key].frees if key in self.reported else 0

    def leaving_bytes(self) -> int:
        """Return the bytes that are about to be freed without any eviction."""
        listed = self.view.users is not None
        keys = (e.key for e in self.leaving if e.state != EntryState.PRESENT or (listed and not self.has_users(e.key)))
        return sum(self.frees_bytes(key) for key in keys)


def derive_facts(view: NodeView, now: datetime, timing: RemovalTiming) -> Facts:
    """Derive the facts from a view."""
    listed, reported, wanted = view.listed(), view.reported(), wanted_entries(view, now)
    unwanted = [e for key, e in listed.items() if key not in wanted]
    kept = {e.key: stays for e in unwanted if (stays := kept_entry(view, e, now)) is not None}
    unknown = {key for key, s in reported.items() if s.phase == Phase.UNKNOWN and key[0] not in view.retained.ids}
    return Facts(
        view=view,
        now=now,
        timing=timing,
        listed=listed,
        reported=reported,
        wanted=wanted,
        kept=kept,
        leaving=tuple(e for e in unwanted if e.key not in kept),
        unlisted=frozenset(unknown - listed.keys() - wanted.keys()),
    )
