"""Keys of the claims of replicas."""

from dataclasses import dataclass

from controller.manager.keys import NamespacedKey


@dataclass(frozen=True, slots=True)
class ReplicaPodKey(NamespacedKey):
    """A pod that was given claims and has not started."""


@dataclass(frozen=True, slots=True)
class TemplateClaimKey:
    """A claim of a pod, in the provisioner."""

    namespace: str
    name: str
