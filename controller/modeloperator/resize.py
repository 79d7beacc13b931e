"""What a changed `spec.storage.size` means for a claim that exists. No input or output, no clock."""

from dataclasses import dataclass

from controller.modeloperator.view import ModelObjectView
from shared.quantity import parse_quantity

GROWING = "Growing"


@dataclass(frozen=True, slots=True)
class Resize:
    """A claim whose size is not the one that its Model wants.

    Args:
        reason: Reason of the condition Resizing.
        message: Its message.
        size: What the claim should request; empty if it does already, or never can.
    """

    reason: str
    message: str
    size: str = ""


def resize_of(view: ModelObjectView) -> Resize | None:
    """Return how the claim differs from `spec.storage.size`, or None. Kubernetes can only grow claims."""
    claim, size = view.claim, view.model.spec.storage.size
    if claim is None or claim.status.phase != "Bound":
        return None
    name, wanted, requested = claim.metadata.name, _bytes(size), _bytes(claim.requested)
    if wanted < requested:
        message = (
            f"claim {name} asks for {claim.requested}, and claims cannot shrink to {size}; write the larger size, or "
            "delete the Model and recreate it"
        )
        return Resize("CannotShrink", message)
    if wanted > requested and view.growth_refused:
        change = f"claim {name} cannot grow from {claim.requested} to {size}"
        return Resize("ClaimNotGrown", f"{change}: {view.growth_refused}; Larder retries", size)
    if wanted > requested:
        return Resize(GROWING, f"claim {name} grows from {claim.requested} to {size}", size)
    if _bytes(claim.capacity) < requested:
        message = f"claim {name} asks for {claim.requested}; its volume still has {claim.capacity}"
        return Resize(GROWING, message)
    return None


def _bytes(quantity: str) -> int:
    """Return a size in bytes, 0 if it is invalid: admission, where it is called, refuses such a Model."""
    try:
        return parse_quantity(quantity)
    except ValueError:
        return 0
