"""Keys of services whose pods have no cached model."""

from collections.abc import Hashable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class UncachedServiceKey:
    """A service of KServe."""

    kind: str
    namespace: str
    name: str

    @property
    def flow(self) -> Hashable:
        """Its namespace."""
        return self.namespace
