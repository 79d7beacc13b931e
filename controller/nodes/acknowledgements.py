"""Tracks when draining entries were closed to new pods and ResourceClaims, on the controller's own clock."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from controller.state.keys import EntryKey
from controller.state.nodes.entry_statuses import Statuses
from shared.api.model_node import EntryState, ModelNode
from shared.model_devices import device_name

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


@dataclass(slots=True)
class Acknowledgements:
    """Kept in memory: after a restart of the controller, the pause before each removal begins again."""

    _seen: dict[str, dict[EntryKey, Acknowledgement]] = field(default_factory=dict, init=False)

    def of(
        self, name: str, model_node: ModelNode | None, statuses: Statuses, now: datetime
    ) -> Mapping[EntryKey, Acknowledgement]:
        """Return the acknowledgements of the entries that drain."""
        old, new = self._seen.get(name, {}), dict[EntryKey, Acknowledgement]()
        for entry in model_node.spec.entries if model_node else ():
            status = statuses.get(entry.key)
            if entry.state != EntryState.DRAINING or status is None or status.observed != EntryState.DRAINING:
                continue
            known = old.get(entry.key)
            new[entry.key] = known if known and known.since == entry.since else Acknowledgement(entry.since, now)
        if new:
            self._seen[name] = new
        else:
            self._seen.pop(name, None)
        return new

    def close(self, name: str, keys: Collection[EntryKey], now: datetime) -> None:
        """Record that these entries can no longer be allocated to new ResourceClaims."""
        seen = self._seen.get(name, {})
        for key in keys & seen.keys():
            seen[key] = Acknowledgement(seen[key].since, seen[key].at, now)

    def forget(self, name: str) -> None:
        """Drop the state of a deleted node."""
        self._seen.pop(name, None)


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
