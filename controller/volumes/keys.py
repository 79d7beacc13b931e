"""Keys of the volumes feature."""

from collections.abc import Hashable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class VolumeKey:
    """A claim through which pods of a namespace mount a model."""

    namespace: str
    name: str

    @property
    def lane(self) -> Hashable:
        """Its namespace."""
        return self.namespace
