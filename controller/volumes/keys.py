"""Keys of the volumes feature."""

from dataclasses import dataclass

from controller.manager.keys import NamespacedKey


@dataclass(frozen=True, slots=True)
class VolumeKey(NamespacedKey):
    """A claim through which pods of a namespace mount a model."""
