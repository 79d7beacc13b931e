"""Keeps a sink equal to a collection on the API server: list, then watch, forever."""

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

import msgspec

from shared.backoff import Backoff, Uniform
from shared.decode_errors import DECODE_ERRORS
from shared.kube.collection import PAGE, decode, pages, selectors
from shared.kube.errors import Busy, Expired, Malformed, Refused, Unreachable
from shared.kube.objects import Event, Key, Object
from shared.kube.status_errors import error_from_status
from shared.kube.transport import Kube

T = TypeVar("T", bound=Object)
T_contra = TypeVar("T_contra", bound=Object, contravariant=True)


class Sink(Protocol[T_contra]):
    """Receives the state of a collection from a reflector."""

    def replace(self, objects: Sequence[T_contra], unreadable: Collection[Key]) -> None:
        """Replace the whole state.

        Args:
            objects: Every readable object of the collection.
            unreadable: Keys of objects that exist but cannot be decoded; their last state is kept.
        """

    def upsert(self, obj: T_contra) -> None:
        """Store the new state of an object.

        Args:
            obj: The object as the API server reported it last.
        """

    def remove(self, key: Key) -> None:
        """Forget an object.

        Args:
            key: The object, which may be unknown.
        """


@dataclass(frozen=True, slots=True)
class ReflectorTiming:
    """All waits of a reflector, in seconds."""

    watch_s: float = 300  # the server ends a watch after one to two times this
    idle_s: float = 90  # bookmarks come every 60 s
    steady_s: float = 5  # a watch that lives this long clears earlier failures
    relist_jitter_s: float = 0.5
    unavailable_s: float = 1  # a 503 says 5, but a restarted server is ready sooner
    busy_s: float = 1  # for a 429 without a time
    busy_cap_s: float = 30
    list_s: float = 60
    backoff: Backoff = Backoff(first_s=0.1, cap_s=2)  # use cap_s=5 if a thousand agents reconnect


@dataclass(slots=True)
class Reflector(Generic[T]):
    """Copies one collection to one sink; ends only by cancellation. `synced` is set after the first list."""

    kube: Kube
    path: str
    kind: type[T]
    sink: Sink[T]
    on_error: Callable[[Exception, float], None]  # called with the error and the wait that follows, in seconds
    label_selector: str = ""
    field_selector: str = ""
    page: int = PAGE
    timing: ReflectorTiming = ReflectorTiming()
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    clock: Callable[[], float] = time.monotonic
    uniform: Uniform = random.uniform
    synced: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _version: str = field(default="", init=False)  # empty: list before the next watch
    _failures: int = field(default=0, init=False)
    _expirations: int = field(default=0, init=False)

    async def run(self) -> None:
        """Keep the sink in sync, and retry after every failure."""
        while True:
            try:
                if not self._version:
                    await self._list()
                await self._watch()
            except Exception as error:  # noqa: BLE001 - no error may end the watch
                delay_s = self._delay_s(error)
                self.on_error(error, delay_s)
                await self.sleep(delay_s)

    async def _list(self) -> None:
        objects: list[T] = []
        unreadable: list[Key] = []
        version = ""
        async for page in pages(self.kube, self.path, self._selectors, self.page, self.timing.list_s):
            for raw in page.items:
                item = self._read(raw)
                unreadable.append(item) if isinstance(item, Key) else objects.append(item)
            version = page.metadata.resource_version
        self.sink.replace(objects, unreadable)
        self._version = version
        self.synced.set()

    async def _watch(self) -> None:
        opened, is_silent = math.inf, True  # time spent connecting does not count as a steady watch
        try:
            async with self.kube.watch(self.path, self._watch_query(), self.timing.idle_s) as lines:
                opened = self.clock()
                async for line in lines:
                    is_silent = False
                    self._handle(decode(line, Event))
        finally:
            lasted_s = self.clock() - opened
            steady = lasted_s >= self.timing.steady_s
            if steady:
                self._failures = self._expirations = 0
            if is_silent and lasted_s >= self.timing.idle_s:
                self._version = ""  # a server restored from a backup waits for this version, and sends no bookmarks
        if not steady:
            raise Unreachable("the watch was closed early")

    def _handle(self, event: Event) -> None:
        if event.type == "ERROR":
            raise error_from_status(0, event.object)
        obj = decode(event.object, Object)
        match event.type:
            case "DELETED":
                self.sink.remove(obj.key)
            case "ADDED" | "MODIFIED":
                item = self._read(event.object)
                if not isinstance(item, Key):
                    self.sink.upsert(item)
        self._version = obj.metadata.resource_version

    def _read(self, raw: msgspec.Raw) -> T | Key:
        """Decode an object. If that fails, return its key, so that the object is not treated as deleted."""
        try:
            return msgspec.json.decode(raw, type=self.kind)
        except DECODE_ERRORS as error:
            key = decode(raw, Object).key
            self.on_error(Malformed(f"{self.path} {key.namespace}/{key.name}: {error}"), 0)
            return key

    def _delay_s(self, error: Exception) -> float:
        """Record the failure, and return the seconds to wait before the next attempt."""
        match error:
            case Expired():
                self._version = ""
                self._expirations += 1
                if self._expirations == 1:
                    return self.uniform(0, self.timing.relist_jitter_s)
                return self.timing.backoff.delay_s(self._expirations)
            case Busy(code=503):
                return self.uniform(1.0, 1.25) * self.timing.unavailable_s
            case Busy(after_s=after_s):
                return self.uniform(1.0, 1.25) * min(after_s or self.timing.busy_s, self.timing.busy_cap_s)
            case Unreachable() | Refused():
                pass
            case _:  # the state of the sink is unknown: start over
                self._version = ""
        self._failures += 1
        return self.timing.backoff.delay_s(self._failures)

    @property
    def _selectors(self) -> dict[str, str]:
        return selectors(self.label_selector, self.field_selector)

    def _watch_query(self) -> dict[str, str]:
        return self._selectors | {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(int(self.timing.watch_s * self.uniform(1, 2))),
        }
