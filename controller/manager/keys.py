"""The key of an object in a namespace."""

from collections.abc import Hashable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NamespacedKey:
    """A key by namespace and name; each kind of key derives from it, and never equals a key of another kind."""

    namespace: str
    name: str

    @property
    def flow(self) -> Hashable:
        """Its namespace."""
        return self.namespace
