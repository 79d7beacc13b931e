"""The workqueue key of pods that wait."""

from collections.abc import Hashable
from dataclasses import dataclass

from controller.state.keys import EntryKey


@dataclass(frozen=True, slots=True)
class WaitingKey:
    """The pods of a namespace that were given one revision of a model and have not started."""

    namespace: str
    id: str
    revision: str

    @property
    def flow(self) -> Hashable:
        """Its namespace."""
        return self.namespace

    @property
    def snapshot(self) -> EntryKey:
        """The model id and revision."""
        return self.id, self.revision


def waiting_key(namespace: str, snapshot: EntryKey) -> WaitingKey:
    """Return the key of the pods of a namespace that wait for a snapshot."""
    return WaitingKey(namespace, *snapshot)
