"""Tells failures of the whole API server from those of one namespace. No input or output, no clock."""

from shared.kube.errors import Busy, KubeError, Unreachable

# What the API server answers with a 5xx although only requests of some namespaces fail.
_OF_SOME_NAMESPACES = (
    'failed calling webhook "',
    'admission webhook "',
    "conversion webhook for ",  # of the workload that would own a claim
    "resource quota evaluation timed out",
)


def concerns_all(error: KubeError, *, others_succeed: bool) -> bool:
    """Return whether requests of other namespaces would fail as well.

    Args:
        error: Why a creation failed.
        others_succeed: Whether a creation in another namespace has succeeded since this one began. A webhook that
            never answers looks like a server that never answers, but only to the namespaces that it serves.
    """
    if any(phrase in str(error) for phrase in _OF_SOME_NAMESPACES):
        return False  # a webhook also chooses the status of its denial, 429 for example
    return isinstance(error, Busy) or (isinstance(error, Unreachable) and not others_succeed)
