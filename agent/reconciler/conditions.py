"""Conditions of the ModelNode: the state of the agent and of its store as a whole."""

import msgspec

from agent.store.floor import StoreVolume
from shared.api.meta import Condition
from shared.quantity import format_bytes

READY = "Ready"
ON_ROOT_DISK = "StoreOnRootDisk"


def node_conditions(volume: StoreVolume, disk_size: int, floor: int, generation: int) -> list[Condition]:
    """Return the conditions observed at this generation.

    `lastTransitionTime` is left empty.

    Args:
        volume: The store's volume.
        disk_size: Size of its disk in bytes.
        floor: Bytes of the disk that must stay free.
        generation: Generation of the ModelNode that was observed.
    """
    told = (_ready(volume), _on_root_disk(volume, disk_size, floor))
    return [msgspec.structs.replace(condition, observed_generation=generation) for condition in told]


def _ready(volume: StoreVolume) -> Condition:
    """Return whether the agent can act on the spec; each entry's progress is in its own status."""
    if why := volume.why_refused():
        return _condition(READY, "False", "StoreRefused", why)
    return _condition(READY, "True", "AgentFollows", "the agent brings the node to what the spec says")


def _on_root_disk(volume: StoreVolume, disk_size: int, floor: int) -> Condition:
    if not volume.on_root_disk:
        return _condition(ON_ROOT_DISK, "False", "DiskOfItsOwn", "the store lies on a disk of its own")
    if why := volume.why_refused():
        return _condition(ON_ROOT_DISK, "True", "Refused", why)
    message = (
        f"the store {volume.root} lies on the node's root file system ({format_bytes(disk_size)}), where kubelet "
        f"evicts pods when space runs low; {format_bytes(floor)} of it stay free; a disk of its own is better"
    )
    return _condition(ON_ROOT_DISK, "True", "DiskOfTheNode", message)


def _condition(kind: str, status: str, reason: str, message: str) -> Condition:
    return Condition(type=kind, status=status, reason=reason, message=message, last_transition_time="")
