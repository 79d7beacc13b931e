"""Tracks when draining entries were closed to new pods and ResourceClaims, on the controller's own clock."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from controller.state.keys import EntryKey
from controller.state.nodes.entry_statuses import Statuses
from shared.api.model_node import EntryState, ModelNode
from shared.dra import device_name

_WITHDRAWAL_S = 120.0  # how long to wait for a driver that does not write the taint


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """An agent confirmed that the ready label is gone.

    Args:
        since: When the entry began to drain, as the ModelNode says.
        at: When the confirmation was first seen.
        closed_at: When the entry was first seen closed to ResourceClaims as well; None before that.
    """

    since: str
    at: datetime
    closed_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class _Drain:
    """When an entry began to drain, and the first generation of the ModelNode that was seen with this drain."""

    since: str
    generation: int


@dataclass(slots=True)
class Acknowledgements:
    """Kept in memory: after a restart of the controller, the pause before each removal begins again.

    A status counts only if its agent has seen the drain. An entry may have drained before and been Present in between,
    and the status of that earlier drain stays until the agent writes another.
    """

    _begun: dict[str, dict[EntryKey, _Drain]] = field(default_factory=dict, init=False)
    _seen: dict[str, dict[EntryKey, Acknowledgement]] = field(default_factory=dict, init=False)

    def of(
        self, name: str, model_node: ModelNode | None, statuses: Statuses, now: datetime
    ) -> Mapping[EntryKey, Acknowledgement]:
        """Return the acknowledgements of the entries that drain."""
        if model_node is None:
            self.forget(name)
            return {}
        old, new = self._seen.pop(name, {}), dict[EntryKey, Acknowledgement]()
        for key, drain in self._drains(name, model_node).items():
            status, known = statuses.get(key), old.get(key)
            is_current = model_node.status.observed_generation >= drain.generation
            if is_current and status is not None and status.observed == EntryState.DRAINING:
                new[key] = known if known and known.since == drain.since else Acknowledgement(drain.since, now)
        if new:
            self._seen[name] = new
        return new

    def close(self, name: str, keys: Collection[EntryKey], now: datetime) -> None:
        """Record that these entries can no longer be allocated to new ResourceClaims."""
        seen = self._seen.get(name, {})
        for key in keys & seen.keys():
            seen[key] = Acknowledgement(seen[key].since, seen[key].at, now)

    def forget(self, name: str) -> None:
        """Drop the state of a deleted node."""
        self._begun.pop(name, None)
        self._seen.pop(name, None)

    def _drains(self, name: str, model_node: ModelNode) -> Mapping[EntryKey, _Drain]:
        old, new = self._begun.pop(name, {}), dict[EntryKey, _Drain]()
        for entry in model_node.spec.entries:
            if entry.state == EntryState.DRAINING:
                known, drain = old.get(entry.key), _Drain(entry.since, model_node.metadata.generation)
                new[entry.key] = known if known and known.since == drain.since else drain
        if new:
            self._begun[name] = new
        return new


def still_offered(
    acknowledged: Mapping[EntryKey, datetime], devices: Collection[str], now: datetime
) -> dict[EntryKey, datetime]:
    """Return the entries whose removal must wait for the driver, with the time of their acknowledgement.

    Args:
        acknowledged: When their agent confirmed the drain.
        devices: The devices that the driver offers to new ResourceClaims.
        now: The current time.
    """
    earliest = now - timedelta(seconds=_WITHDRAWAL_S)
    return {key: at for key, at in acknowledged.items() if at > earliest and device_name(*key) in devices}
