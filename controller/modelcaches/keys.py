"""The workqueue key of a ModelCache."""

from dataclasses import dataclass

from controller.manager.keys import NamespacedKey


@dataclass(frozen=True, slots=True)
class ModelCacheKey(NamespacedKey):
    """A ModelCache."""
