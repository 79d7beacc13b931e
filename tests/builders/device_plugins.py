"""Device plugins whose behaviour a test sets."""

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event
from typing import Any

from shared.devices.info import ContainerInfo, NodeInfo, PodInfo

CARD = "resource/group/gpu/0/cards"


def nothing() -> None:
    """Do nothing."""


@dataclass
class StubDevice:
    """A device plugin with the methods of a test; by default, it offers one card."""

    name: Any = "stub"
    on_new: Callable[[], None] = nothing
    on_start: Callable[[], None] = nothing
    fill: Callable[[NodeInfo], None] = lambda node: node.allocatable.update({CARD: 1})
    answer: Callable[[PodInfo, ContainerInfo], object] = lambda _pod, _container: ([], [], {})

    def new(self) -> None:
        self.on_new()

    def start(self) -> None:
        self.on_start()

    def update_node_info(self, node_info: NodeInfo) -> None:
        self.fill(node_info)

    def allocate(self, pod_info: PodInfo, container_info: ContainerInfo) -> Any:
        return self.answer(pod_info, container_info)


@dataclass
class Hanging:
    """Hangs in each call until the test releases it."""

    let_go: Event = field(default_factory=Event)
    calls: int = 0

    def __call__(self, *_: object) -> None:
        self.calls += 1
        self.let_go.wait(60)


def raising(error: BaseException) -> Callable[..., None]:
    """Return a method that raises."""

    def method(*_: object) -> None:
        raise error

    return method


# The objects that the entry points of tests name.
def make_working() -> StubDevice:
    return StubDevice("working")


def make_working_too() -> StubDevice:
    return StubDevice("working")


def make_that_fails_new() -> StubDevice:
    return StubDevice("fails-new", on_new=raising(OSError("no memory")))


def make_that_fails_to_start() -> StubDevice:
    return StubDevice("fails-to-start", on_start=raising(RuntimeError("no card found")))


def make_that_exits() -> StubDevice:
    return StubDevice("exits", on_start=raising(SystemExit(3)))


def make_nameless() -> StubDevice:
    return StubDevice(name=None)


def make_badly_named() -> StubDevice:
    return StubDevice("a name with spaces")
