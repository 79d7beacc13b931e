"""Errors raised while a claim is being prepared.

LarderError (shared.errors)
└── PrepareRefused   kubelet puts the message into the pod's events and retries
"""

from shared.errors import Retryable


class PrepareRefused(Retryable):
    """A device of a claim cannot be prepared now; the message names it and says what to do."""
