"""Caches the last known state of a collection and reports its changes."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from shared.kube.objects import Key, Object

T = TypeVar("T", bound=Object)


@dataclass(slots=True)
class Cache(Generic[T]):
    """A sink that reports every change once, as (before, after); None means that the object does not exist.

    `on_replace` is called once the whole collection was listed and its changes are reported.
    """

    on_change: Callable[[T | None, T | None], None]
    on_replace: Callable[[], None] = lambda: None
    _objects: dict[Key, T] = field(default_factory=dict, init=False)

    def get(self, key: Key) -> T | None:
        """Return the object, or None if there is none."""
        return self._objects.get(key)

    def __iter__(self) -> Iterator[T]:
        return iter(list(self._objects.values()))

    def __len__(self) -> int:
        return len(self._objects)

    def replace(self, objects: Sequence[T], unreadable: Collection[Key] = ()) -> None:
        """Replace the content with `objects`; an unreadable object keeps its last known state."""
        present = {obj.key for obj in objects} | set(unreadable)
        for key in self._objects.keys() - present:
            self.remove(key)
        for obj in objects:
            self.upsert(obj)
        self.on_replace()

    def upsert(self, obj: T) -> None:
        """Store the new state of an object; a different uid means that the deletion of the old one was missed."""
        before = self._objects.get(obj.key)
        if before and before.metadata.resource_version == obj.metadata.resource_version:
            return
        self.put(obj)

    def put(self, obj: T) -> None:
        """Store the state of an object and report it, even if its version is known."""
        before = self._objects.get(obj.key)
        if before and before.metadata.uid != obj.metadata.uid:
            self.remove(obj.key)
            before = None
        self._objects[obj.key] = obj
        self.on_change(before, obj)

    def remove(self, key: Key) -> None:
        """Forget the object, if it is known."""
        if before := self._objects.pop(key, None):
            self.on_change(before, None)
