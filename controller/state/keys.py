"""Keys of objects in the cluster state."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TypeAlias

EntryKey: TypeAlias = tuple[str, str]  # of a ModelNode: model id and revision


@dataclass(frozen=True, slots=True)
class ModelKey:
    """A declared model."""

    kind: str
    namespace: str
    name: str

    @property
    def flow(self) -> Hashable:
        """Its namespace; cluster-scoped models share one flow."""
        return self.namespace
