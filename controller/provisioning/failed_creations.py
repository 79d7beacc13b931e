"""Remembers why objects could not be created, and when a refused request is made again."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from controller.provisioning.creation_failure import CreationFailure
from controller.provisioning.exclusive_names import RefusedName
from shared.backoff import Backoff
from shared.kube.errors import KubeError

K = TypeVar("K", bound=Hashable)
_REFUSED = Backoff(first_s=30, cap_s=120)


@dataclass(slots=True)
class FailedCreations(Generic[K]):
    """The last failure of each key: the queue repeats most requests itself, but not those that were refused."""

    clock: Callable[[], float]
    _last: dict[K, tuple[KubeError, float, int]] = field(default_factory=dict, init=False)

    def note(self, key: K, error: KubeError) -> None:
        """Record a failure; each one in a row makes the pause longer."""
        count = self._last[key][2] + 1 if key in self._last else 1
        self._last[key] = (error, self.clock() + _REFUSED.delay_s(count), count)

    def of(self, key: K) -> CreationFailure | None:
        """Return the last failure, or None if there was none since the objects were last created."""
        if key not in self._last:
            return None
        error, due, _ = self._last[key]
        retry_s = None if error.retryable else max(0.0, due - self.clock())
        return CreationFailure(str(error), retry_s, error.reason if isinstance(error, RefusedName) else "")

    def forget(self, key: K) -> None:
        """Forget a key."""
        self._last.pop(key, None)

    def clear(self) -> None:
        """Drop everything."""
        self._last.clear()
