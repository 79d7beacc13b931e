"""From a value to the names of what has it."""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

V = TypeVar("V", bound=Hashable)
K = TypeVar("K", bound=Hashable)


@dataclass(slots=True)
class Index(Generic[V, K]):
    """Whoever knows of a change tells it; a value that nothing has takes no room."""

    _names: dict[V, dict[K, None]] = field(default_factory=dict, init=False)  # dicts, for their order is stable

    def move(self, name: K, before: Iterable[V], after: Iterable[V]) -> None:
        """Note that something had the values `before` and has those `after`."""
        old, new = set(before), set(after)
        for value in old - new:
            names = self._names.get(value, {})
            names.pop(name, None)
            if not names:
                self._names.pop(value, None)
        for value in new - old:
            self._names.setdefault(value, {})[name] = None

    def of(self, value: V) -> list[K]:
        """Return the names of what has a value."""
        return list(self._names.get(value, ()))

    def __len__(self) -> int:
        return len(self._names)
