"""Objects that were just created and may not be in the caches yet."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

_SEEN_WITHIN_S = 10.0


@dataclass(slots=True)
class RecentCreations:
    """Remembers created objects until a watch reports them or ten seconds have passed, so none is created twice."""

    clock: Callable[[], float]
    _until: dict[Hashable, float] = field(default_factory=dict, init=False)  # in order of creation

    def note(self, key: Hashable) -> None:
        """Record a creation."""
        now = self.clock()
        while self._until and next(iter(self._until.values())) <= now:
            del self._until[next(iter(self._until))]
        self._until.pop(key, None)
        self._until[key] = now + _SEEN_WITHIN_S

    def seen(self, key: Hashable) -> None:
        """Drop a key whose object has been seen."""
        self._until.pop(key, None)

    def __contains__(self, key: Hashable) -> bool:
        return self._until.get(key, 0.0) > self.clock()

    def clear(self) -> None:
        """Drop everything."""
        self._until.clear()
