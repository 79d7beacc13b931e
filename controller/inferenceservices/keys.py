"""The workqueue key of an InferenceService."""

from collections.abc import Hashable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServiceKey:
    """An InferenceService."""

    namespace: str
    name: str

    @property
    def lane(self) -> Hashable:
        """Its namespace."""
        return self.namespace
