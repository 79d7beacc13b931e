"""How often objects are looked at whose changes no watch reports. No input or output, no clock."""

_UNCROWDED = 20  # objects of a namespace
_LONGEST_S = 300.0


def look_delay_s(delay_s: float, waiting: int) -> float:
    """Return the delay until the next look, so that the looks at a namespace cost no more than those at 20 objects.

    Args:
        delay_s: The delay for an object that is alone.
        waiting: How many objects of the namespace are looked at as often.
    """
    return max(delay_s, min(delay_s * (1 + waiting // _UNCROWDED), _LONGEST_S))
