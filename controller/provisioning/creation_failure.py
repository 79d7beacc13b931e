"""Why objects could not be created. No input or output, no clock."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CreationFailure:
    """Why the objects of a key could not be created.

    Args:
        message: What the API server said.
        retry_s: Seconds until a refused request is made again; None if it is still in the queue.
        reason: NameConflict or NameTooLong if the name is the cause; else empty.
    """

    message: str
    retry_s: float | None
    reason: str = ""
