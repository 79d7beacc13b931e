"""The workqueue key of an InferenceService."""

from dataclasses import dataclass

from controller.manager.keys import NamespacedKey


@dataclass(frozen=True, slots=True)
class ServiceKey(NamespacedKey):
    """An InferenceService."""
