"""Who hears of a change."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVarTuple, Unpack

Ts = TypeVarTuple("Ts")


@dataclass(slots=True)
class Signal(Generic[*Ts]):
    """Tells each listener of every change, in the order in which they began to listen."""

    _listeners: list[Callable[[Unpack[Ts]], None]] = field(default_factory=list, init=False)

    def listen(self, listener: Callable[[Unpack[Ts]], None]) -> None:
        """Hear of all changes from now on."""
        self._listeners.append(listener)

    def tell(self, *change: *Ts) -> None:
        """Pass a change on."""
        for listener in self._listeners:
            listener(*change)
