"""Keys for pods with claims from templates, and for these claims."""

from dataclasses import dataclass

from controller.manager.keys import NamespacedKey


@dataclass(frozen=True, slots=True)
class ReplicaPodKey(NamespacedKey):
    """A pod with claims from templates that has not started."""


@dataclass(frozen=True, slots=True)
class TemplateClaimKey:
    """A pod's claim, as a key of the provisioner."""

    namespace: str
    name: str
