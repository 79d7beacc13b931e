"""How often to poll objects whose changes no watch reports. No input or output, no clock."""

_UNCROWDED = 20  # objects of a namespace
_LONGEST_S = 300.0


def poll_delay_s(delay_s: float, waiting: int) -> float:
    """Return the delay until the next poll, so that polling a namespace costs no more than polling 20 objects.

    Args:
        delay_s: The delay for an object that is alone.
        waiting: The number of objects of the namespace that are polled this way.
    """
    return max(delay_s, min(delay_s * (1 + waiting // _UNCROWDED), _LONGEST_S))
