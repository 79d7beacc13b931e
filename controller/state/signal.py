"""A synchronous observer: listeners of a change."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVarTuple, Unpack

Ts = TypeVarTuple("Ts")


@dataclass(slots=True)
class Signal(Generic[*Ts]):
    """Notifies every listener of each change, in the order of registration."""

    _listeners: list[Callable[[Unpack[Ts]], None]] = field(default_factory=list, init=False)

    def listen(self, listener: Callable[[Unpack[Ts]], None]) -> None:
        """Register a listener."""
        self._listeners.append(listener)

    def emit(self, *change: *Ts) -> None:
        """Notify all listeners of a change."""
        for listener in self._listeners:
            listener(*change)
