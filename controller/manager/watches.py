"""Watches that enqueue keys of a controller."""

from collections.abc import Callable, Iterable, Sized
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, TypeVarTuple, Unpack

from controller.state.informer import Informer
from controller.state.signal import Signal

K = TypeVar("K")
K_contra = TypeVar("K_contra", contravariant=True)
Ts = TypeVarTuple("Ts")
_DELAY_PER_OBJECT_S = 0.0005
_MAX_DELAY_S = 2.0


class Queue(Protocol[K_contra]):
    """A queue of keys to reconcile."""

    def add(self, key: K_contra) -> None:
        """Enqueue a key; a key that is already queued is queued once.

        Args:
            key: What to reconcile.
        """

    def add_after(self, key: K_contra, delay_s: float) -> None:
        """Enqueue a key after a delay; if it is already scheduled, the earlier time wins.

        Args:
            key: What to reconcile.
            delay_s: Delay in seconds.
        """


@dataclass(frozen=True, slots=True)
class Watch(Generic[K]):
    """A source of keys; `informer` is the informer that only this watch needs, if any."""

    listen: Callable[[Queue[K]], None]
    informer: Informer[Any] | None = None


def on(
    signal: Signal[*Ts],
    keys: Callable[[Unpack[Ts]], Iterable[K]],
    after_s: Callable[[], float] | None = None,
    informer: Informer[Any] | None = None,
) -> Watch[K]:
    """Return a watch that enqueues the keys affected by a change, delayed by `after_s()` seconds if given."""

    def listen(queue: Queue[K]) -> None:
        def enqueue(*change: *Ts) -> None:
            if after_s is None:
                for key in keys(*change):
                    queue.add(key)
                return
            delay_s = after_s()
            for key in keys(*change):
                queue.add_after(key, delay_s)

        signal.listen(enqueue)

    return Watch(listen, informer)


def coalescing_delay(objects: Sized) -> Callable[[], float]:
    """Return a delay that grows with the number of objects, for keys that are enqueued whenever any of them changes."""
    return lambda: min(len(objects) * _DELAY_PER_OBJECT_S, _MAX_DELAY_S)


def itself(key: K) -> tuple[K]:
    """Return the key that the signal carries."""
    return (key,)
