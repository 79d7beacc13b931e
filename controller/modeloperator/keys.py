"""The workqueue key of a Model."""

from dataclasses import dataclass

from controller.manager.keys import NamespacedKey


@dataclass(frozen=True, slots=True)
class ModelObjectKey(NamespacedKey):
    """A Model."""
