"""What wakes the keys of a controller."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, TypeVarTuple, Unpack

from controller.state.informer import Informer
from controller.state.signal import Signal

K = TypeVar("K")
K_contra = TypeVar("K_contra", contravariant=True)
Ts = TypeVarTuple("Ts")


class Queue(Protocol[K_contra]):
    """Where keys wait for their turn."""

    def add(self, key: K_contra) -> None:
        """Want a key served."""

    def add_after(self, key: K_contra, delay_s: float) -> None:
        """Want a key served in some seconds; of several wishes the earliest counts."""


@dataclass(frozen=True, slots=True)
class Watch(Generic[K]):
    """Something that wakes keys; `informer` is the collection that only this watch follows, if any."""

    listen: Callable[[Queue[K]], None]
    informer: Informer[Any] | None = None


def on(
    signal: Signal[*Ts],
    keys: Callable[[Unpack[Ts]], Iterable[K]],
    after_s: Callable[[], float] | None = None,
    informer: Informer[Any] | None = None,
) -> Watch[K]:
    """Return a watch that wakes the keys which a change concerns: at once, or in the seconds that `after_s` returns."""

    def listen(queue: Queue[K]) -> None:
        def wake(*change: *Ts) -> None:
            if after_s is None:
                for key in keys(*change):
                    queue.add(key)
                return
            delay_s = after_s()
            for key in keys(*change):
                queue.add_after(key, delay_s)

        signal.listen(wake)

    return Watch(listen, informer)


def itself(key: K) -> tuple[K]:
    """Wake the key that a signal tells."""
    return (key,)
