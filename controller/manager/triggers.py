"""Watches of objects that nothing caches, because reconciles read them live."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from controller.manager.watches import Watch, itself, on
from controller.state.informer import Informer
from controller.state.signal import Signal
from shared.kube.objects import Key, Object

T = TypeVar("T", bound=Object)
K = TypeVar("K")


def on_each(
    path: str,
    kind: type[T],
    keys: Callable[[T], Iterable[K]],
    *,
    label_selector: str,
    removed: Callable[[Key], Iterable[K]] = lambda _: (),
    name: str = "",
) -> Watch[K]:
    """Return a watch of a collection that no feature caches.

    Args:
        path: API path of the collection.
        kind: Struct to decode objects into.
        keys: Returns the keys to enqueue for an object that appears or changes, and for each object of a new list.
        label_selector: Limits the collection to objects with these labels.
        removed: Returns the keys to enqueue for a deleted object; by default none.
        name: Name in metrics and logs; defaults to the last segment of the path.
    """
    signal = Signal[K]()
    trigger = Trigger(signal.emit, keys, removed)
    informer = Informer(path, kind, trigger, label_selector=label_selector, name=name, waited_for=False)
    return on(signal, itself, informer=informer)


@dataclass(frozen=True, slots=True)
class Trigger(Generic[T, K]):
    """A sink that keeps nothing and emits keys; the arguments are those of `on_each`."""

    emit: Callable[[K], None]
    keys: Callable[[T], Iterable[K]]
    removed: Callable[[Key], Iterable[K]]

    def replace(self, objects: Sequence[T], unreadable: Collection[Key] = ()) -> None:
        """Emit the keys of all objects."""
        del unreadable
        for obj in objects:
            self.upsert(obj)

    def upsert(self, obj: T) -> None:
        """Emit the keys of an object."""
        for key in self.keys(obj):
            self.emit(key)

    def remove(self, key: Key) -> None:
        """Emit the keys of a deleted object."""
        for one in self.removed(key):
            self.emit(one)
