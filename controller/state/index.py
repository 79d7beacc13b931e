"""An index from a value to the names that have it."""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

V = TypeVar("V", bound=Hashable)
K = TypeVar("K", bound=Hashable)


@dataclass(slots=True)
class Index(Generic[V, K]):
    """Callers report each change; values without names take no memory."""

    _names: dict[V, dict[K, None]] = field(default_factory=dict, init=False)  # dicts, because they keep their order

    def update(self, name: K, before: Iterable[V], after: Iterable[V]) -> None:
        """Move a name from the values `before` to the values `after`."""
        old, new = set(before), set(after)
        for value in old - new:
            names = self._names.get(value, {})
            names.pop(name, None)
            if not names:
                self._names.pop(value, None)
        for value in new - old:
            self._names.setdefault(value, {})[name] = None

    def of(self, value: V) -> list[K]:
        """Return the names that have a value."""
        return list(self._names.get(value, ()))

    def __contains__(self, value: V) -> bool:
        return value in self._names

    def values(self) -> set[V]:
        """Return every value that some name has."""
        return set(self._names)

    def __len__(self) -> int:
        return len(self._names)
