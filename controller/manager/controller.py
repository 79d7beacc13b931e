"""What a feature declares: what it is for, what it owns, what else wakes it, and how a key is reconciled."""

from collections.abc import Awaitable, Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from prometheus_client.core import Metric

from controller.manager.watches import Watch

NODES_LANE = object()  # all that is about nodes takes its turns together


class QueueKey(Hashable, Protocol):
    """The name of something that may need work: a frozen dataclass of its own for each kind of key."""

    @property
    def lane(self) -> Hashable:
        """What takes turns in the queue, such as the namespace."""


K = TypeVar("K", bound=QueueKey)


def _always(_: object) -> bool:
    return True


def _no_gauges() -> Iterable[Metric]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Controller(Generic[K]):
    """A feature, for the manager to run. Only the leader reconciles.

    Args:
        name: For logs.
        key: The type of its keys. Controllers may share one: a turn of a key is then a turn of each that serves it.
        all_keys: Everything that there is, for a new leader to look at.
        reconcile: Brings what a key names to what it shall be; returns in how many seconds to look again, or None.
        for_: The objects that keys name.
        owns: What a turn makes.
        watches: Whatever else wakes keys.
        serves: Whether a key is this controller's now.
        take_over: Called before a new leader serves any key; a KubeError has it called again.
        stop: Called when this replica leads no more.
        gauges: What only the leader knows, read at each scrape.
    """

    name: str
    key: type[K]
    all_keys: Callable[[], Iterable[K]]
    reconcile: Callable[[K], Awaitable[float | None]]
    for_: tuple[Watch[K], ...] = ()
    owns: tuple[Watch[K], ...] = ()
    watches: tuple[Watch[K], ...] = ()
    serves: Callable[[K], bool] = _always
    take_over: Callable[[], Awaitable[None]] | None = None
    stop: Callable[[], Awaitable[None]] | None = None
    gauges: Callable[[], Iterable[Metric]] = _no_gauges

    @property
    def woken_by(self) -> tuple[Watch[K], ...]:
        """Everything that wakes it."""
        return (*self.for_, *self.owns, *self.watches)


@dataclass(frozen=True, slots=True)
class LeaderTask:
    """A feature without keys: it runs while this replica leads, until it is cancelled."""

    name: str
    run: Callable[[], Awaitable[None]]


Feature: TypeAlias = Controller[Any] | LeaderTask
