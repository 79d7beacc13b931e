"""What the ModelNode says of the store as a whole."""

from agent.store.floor import Ground
from shared.api.meta import Condition
from shared.quantity import format_bytes

ON_ROOT_DISK = "StoreOnRootDisk"


def store_conditions(ground: Ground, disk_size: int, floor: int) -> list[Condition]:
    """Return the conditions; sizes in bytes; `lastTransitionTime` is left empty."""
    if not ground.on_root_disk:
        return [_condition("False", "DiskOfItsOwn", "")]
    if why := ground.why_refused():
        return [_condition("True", "Refused", why)]
    message = (
        f"the store {ground.root} lies on the node's root file system ({format_bytes(disk_size)}), where kubelet "
        f"evicts pods when space runs low; {format_bytes(floor)} of it stay free; a disk of its own is better"
    )
    return [_condition("True", "DiskOfTheNode", message)]


def _condition(status: str, reason: str, message: str) -> Condition:
    return Condition(type=ON_ROOT_DISK, status=status, reason=reason, message=message, last_transition_time="")
