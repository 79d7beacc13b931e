"""When agents first confirmed that a ready label is gone, measured on the controller's own clock."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from controller.state.entry_statuses import Statuses
from controller.state.keys import EntryKey
from shared.api.model_node import EntryState, ModelNode


@dataclass(slots=True)
class Acknowledgements:
    """Kept in memory: after a restart of the controller, the pause before each removal begins again."""

    _seen: dict[str, dict[EntryKey, tuple[str, datetime]]] = field(default_factory=dict, init=False)

    def of(
        self, name: str, model_node: ModelNode | None, statuses: Statuses, now: datetime
    ) -> Mapping[EntryKey, datetime]:
        """Return when each acknowledgement of a draining entry was first seen."""
        old, new = self._seen.get(name, {}), dict[EntryKey, tuple[str, datetime]]()
        for entry in model_node.spec.entries if model_node else ():
            status = statuses.get(entry.key)
            if entry.state != EntryState.DRAINING or status is None or status.observed != EntryState.DRAINING:
                continue
            since, at = old.get(entry.key, ("", now))
            new[entry.key] = (entry.since, at if since == entry.since else now)
        if new:
            self._seen[name] = new
        else:
            self._seen.pop(name, None)
        return {key: at for key, (_, at) in new.items()}

    def forget(self, name: str) -> None:
        """Drop the state of a deleted node."""
        self._seen.pop(name, None)
