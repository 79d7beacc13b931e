"""Authenticates the scheduler: by a secret path that follows from the path key of admission, and is no use there."""

import hashlib
from collections.abc import Sequence
from functools import lru_cache

from controller.admission.callers import Callers, Keys


@lru_cache(maxsize=4)  # the keys that are accepted at one time
def extender_key(key: str) -> str:
    """Return the path segment of the extender for a path key of admission; the key cannot be found from it."""
    return hashlib.sha256(f"scheduler {key}".encode()).hexdigest()


def extender_callers(keys: Keys) -> Callers:
    """Return who may call the extender: no client certificate is asked for, which would be the API server's."""

    def derived() -> Sequence[str]:
        return [extender_key(key) for key in keys()]

    return Callers(derived)
