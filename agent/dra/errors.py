"""What can go wrong when a claim is prepared.

LarderError (shared.errors)
└── PrepareRefused   the message goes to the pod's events through kubelet, which tries again
"""

from shared.errors import Retryable


class PrepareRefused(Retryable):
    """A device of a claim cannot be prepared now; the message names it and says what to do."""
