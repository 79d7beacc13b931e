"""Authenticates the scheduler by a secret path, derived from the path key of admission but not valid there."""

import hashlib
from collections.abc import Sequence
from functools import lru_cache

from controller.admission.callers import Callers, Keys


@lru_cache(maxsize=4)  # the keys that are accepted at one time
def extender_key(key: str) -> str:
    """Derive the extender's path segment from admission's path key, one-way."""
    return hashlib.sha256(f"scheduler {key}".encode()).hexdigest()


def extender_callers(keys: Keys) -> Callers:
    """Return the credentials of the extender's callers: a path, but no certificate, which only the API server has."""

    def derived() -> Sequence[str]:
        return [extender_key(key) for key in keys()]

    return Callers(derived)
