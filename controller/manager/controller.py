"""What a feature declares: the kind it reconciles, what it owns, what else triggers it, and its reconcile function."""

from collections.abc import Awaitable, Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from prometheus_client.core import Metric

from controller.manager.watches import Watch

NODES_FLOW = object()  # all keys about nodes share one flow of the queue


class QueueKey(Hashable, Protocol):
    """A workqueue key; each kind of key is its own frozen dataclass."""

    @property
    def flow(self) -> Hashable:
        """The flow that the key belongs to, such as its namespace; the queue serves flows in turn."""


K = TypeVar("K", bound=QueueKey)


def _always(_: object) -> bool:
    return True


def _no_gauges() -> Iterable[Metric]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Controller(Generic[K]):
    """A controller for the manager to run; only the leader reconciles.

    Args:
        name: Name for logs and metrics.
        key: Type of its keys. Controllers may share a type: each that serves a key then reconciles it.
        all_keys: Returns the key of everything that exists, for a new leader to enqueue; others enqueue nothing.
        reconcile: Drives the object of a key to its desired state; returns the delay until the next run in seconds, or
            None.
        for_: Watches on the objects that the keys name.
        owns: Watches on the objects that a reconcile creates.
        watches: Watches on anything else that triggers keys.
        serves: Returns whether this controller is responsible for a key now.
        take_over: Called before a new leader reconciles any key; retried after a KubeError.
        stop: Called when this replica loses leadership.
        gauges: Metrics that only the leader can report, read at each scrape.
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
    def triggers(self) -> tuple[Watch[K], ...]:
        """All watches that enqueue its keys."""
        return (*self.for_, *self.owns, *self.watches)


@dataclass(frozen=True, slots=True)
class LeaderTask:
    """A feature without keys: runs while this replica leads, until it is cancelled."""

    name: str
    run: Callable[[], Awaitable[None]]


Feature: TypeAlias = Controller[Any] | LeaderTask
