"""A simulated minute of every fault: the waits of the reflector advance the clock, and the sockets are real."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from shared.kube.cache import Cache
from shared.kube.errors import KubeError, Malformed
from shared.kube.objects import Key, Object
from shared.kube.reflector import Reflector, ReflectorTiming
from shared.kube.transport import Kube

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Serve = Callable[[Handler], Awaitable[Kube]]
EXPIRED = {"code": 410, "reason": "Expired"}
MINUTE_S = 60.0


class Numbered(Object, frozen=True, kw_only=True):
    spec: int = 0


class Recorder:
    """A scripted server, and a clock that only waits advance."""

    def __init__(self, watch: Handler) -> None:
        self.watch = watch
        self.items = [thing(0), thing(1), thing(2)]
        self.version = "200"
        self.now = 0.0
        self.clock_reads = 0
        self.queries: list[dict[str, str]] = []
        self.troubles: list[Exception] = []
        self.waits: list[float] = []
        self.changes: list[tuple[Numbered | None, Numbered | None]] = []
        self.cache: Cache[Numbered] = Cache(self._changed)
        self.a_minute_passed = asyncio.Event()
        self.progress = asyncio.Event()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.queries.append(dict(request.query))
        self.progress.set()
        if "watch" in request.query:
            return await self.watch(request)
        start = int(request.query.get("continue", "0"))
        meta = {"resourceVersion": self.version} | ({"continue": "2"} if start == 0 and len(self.items) > 2 else {})
        return web.json_response({"metadata": meta, "items": self.items[start : start + 2]})

    def clock(self) -> float:
        self.clock_reads += 1
        self.progress.set()
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self.now >= MINUTE_S:
            self.a_minute_passed.set()
            await asyncio.Event().wait()
        await asyncio.sleep(0)

    def on_error(self, error: Exception, wait_s: float) -> None:
        self.troubles.append(error)
        self.waits.append(wait_s)
        self.progress.set()

    def _changed(self, before: Numbered | None, after: Numbered | None) -> None:
        self.changes.append((before, after))
        self.progress.set()
        if after and after.metadata.name == "m666":
            raise KeyError("a bug")

    @asynccontextmanager
    async def reflected(
        self,
        serve: Serve,
        **more: Any,
    ) -> AsyncIterator[Reflector[Numbered]]:
        reflector = Reflector(
            await serve(self.answer), "/m", Numbered, self.cache, self.on_error, sleep=self.sleep,
            clock=self.clock, **more,
        )  # fmt: skip
        running = asyncio.create_task(reflector.run())
        try:
            async with asyncio.timeout(60):
                yield reflector
            assert not running.done()
        finally:
            running.cancel()

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self.progress.clear()
            await self.progress.wait()

    def names(self) -> list[str]:
        return sorted(obj.metadata.name for obj in self.cache)

    def lists(self) -> int:
        return sum("watch" not in query and "continue" not in query for query in self.queries)


def thing(number: int, version: int = 0, **more: object) -> dict[str, Any]:
    meta = {"name": f"m{number}", "uid": f"u{number}", "resourceVersion": str(version or 100 + number)}
    return {"apiVersion": "x/v1", "kind": "M", "metadata": meta, **more}


def line(kind: str, body: object) -> bytes:
    return json.dumps({"type": kind, "object": body}).encode() + b"\n"


def stream(*lines: bytes, then: str = "end") -> Handler:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for one in lines:
            await response.write(one)
        if then == "abort" and request.transport:
            await asyncio.sleep(0.005)
            request.transport.abort()
        if then == "silence":
            await asyncio.sleep(3600)
        return response

    return answer


def status(code: int, body: object = None, **headers: str) -> Handler:
    async def answer(_: web.Request) -> web.StreamResponse:
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        text = body if isinstance(body, str) else json.dumps(body or {"code": code})
        return web.Response(text=text, status=code, headers=names)

    return answer


FAULTS: dict[str, Handler] = {
    "closed empty": stream(),
    "410 status": status(410, EXPIRED),
    "410 event": stream(line("ERROR", EXPIRED)),
    "429 with 1 s": status(429, {"code": 429, "details": {"retryAfterSeconds": 1}}),
    "429 without a time": status(429),
    "503 in html": status(503, "<html>", Retry_After="5"),
    "500": status(500),
    "403": status(403),
    "404": status(404),
    "aborted at once": stream(then="abort"),
    "aborted in a line": stream(line("ADDED", thing(3)), b'{"type": "ADDED", "obj', then="abort"),
    "not json": stream(b"{]\n"),
    "not utf-8": stream(b'{"type": "\xff"}\n'),
    "not an event": stream(b"[]\n"),
    "no metadata": stream(line("ADDED", {})),
    "an error without a code": stream(line("ERROR", {})),
    "the listener raises": stream(line("ADDED", thing(666))),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_an_endless_fault_neither_stops_the_reflector_nor_floods_the_server(serve: Serve, fault: str) -> None:
    cluster = Recorder(FAULTS[fault])
    async with cluster.reflected(serve) as reflector:
        await cluster.a_minute_passed.wait()
        assert reflector.synced.is_set()
    assert len(cluster.queries) < 3 * MINUTE_S, "hot loop"
    assert set(cluster.names()) >= {"m0", "m1", "m2"}
    deleted = [before.metadata.name for before, after in cluster.changes if before and not after]
    assert set(deleted) <= {"m666"}, "an object that every list has was reported as deleted"
    assert max(cluster.waits) <= 2
    assert cluster.troubles


@pytest.mark.parametrize("fault", FAULTS)
async def test_the_cache_is_current_again_once_the_fault_ends(serve: Serve, fault: str) -> None:
    cluster = Recorder(FAULTS[fault])
    async with cluster.reflected(serve):
        await cluster.until(lambda: len(cluster.troubles) >= 3)
        cluster.items = [thing(0), thing(1, version=300)]
        cluster.version = "300"
        cluster.watch = stream(line("DELETED", thing(2)), line("MODIFIED", thing(1, version=300)), then="silence")
        await cluster.until(lambda: "m2" not in cluster.names())
        await cluster.until(lambda: any(obj.metadata.resource_version == "300" for obj in cluster.cache))
        deletions = [before.metadata.name for before, after in cluster.changes if before and not after]
    assert deletions.count("m2") == 1


@pytest.mark.parametrize(
    ("fault", "least_s", "most_s"),
    [("429 with 1 s", 1, 1.25), ("503 in html", 1, 1.25), ("429 without a time", 1, 1.25)],
)
async def test_a_busy_server_is_not_asked_before_its_stated_time(
    serve: Serve, fault: str, least_s: float, most_s: float
) -> None:
    cluster = Recorder(FAULTS[fault])
    async with cluster.reflected(serve):
        await cluster.a_minute_passed.wait()
    assert all(least_s <= wait_s <= most_s for wait_s in cluster.waits)


async def test_the_wait_that_a_server_requests_is_honoured_up_to_half_a_minute(serve: Serve) -> None:
    cluster = Recorder(status(429, "<html>", Retry_After="3600"))
    async with cluster.reflected(serve):
        await cluster.a_minute_passed.wait()
    assert all(30 <= wait_s <= 37.5 for wait_s in cluster.waits)


async def test_the_first_expired_watch_is_listed_again_at_once_and_later_ones_with_a_delay(serve: Serve) -> None:
    cluster = Recorder(FAULTS["410 status"])
    async with cluster.reflected(serve):
        await cluster.a_minute_passed.wait()
    assert cluster.waits[0] <= 0.5
    assert all(wait_s >= 1 for wait_s in cluster.waits[6:])
    assert cluster.lists() == len(cluster.waits)


async def test_a_broken_watch_resumes_from_its_bookmark_without_a_new_list(serve: Serve) -> None:
    bookmark = {"metadata": {"resourceVersion": "250"}, "kind": "M"}
    cluster = Recorder(stream(line("ADDED", thing(3, 210)), line("BOOKMARK", bookmark)))
    async with cluster.reflected(serve):
        await cluster.until(lambda: len(cluster.queries) >= 5)
    versions = [query.get("resourceVersion") for query in cluster.queries if "watch" in query]
    assert versions[:3] == ["200", "250", "250"]
    assert cluster.lists() == 1
    assert cluster.names() == ["m0", "m1", "m2", "m3"]


async def test_a_watch_that_lived_long_clears_the_failures(serve: Serve) -> None:
    cluster = Recorder(stream())

    async def long(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(line("ADDED", thing(3)))
        await cluster.until(lambda: "m3" in cluster.names())
        cluster.now += 6
        return response

    async with cluster.reflected(serve):
        await cluster.until(lambda: len(cluster.waits) >= 6)
        assert cluster.waits[5] >= 1
        cluster.watch = after_one(long, stream(), cluster)
        await cluster.until(lambda: len(cluster.waits) >= 10)
    assert 0 < min(cluster.waits[6:]) <= 0.1


def after_one(first: Handler, then: Handler, cluster: Recorder) -> Handler:
    async def answer(request: web.Request) -> web.StreamResponse:
        cluster.watch = then
        return await first(request)

    return answer


async def test_the_reflector_requests_pages_bookmarks_and_its_selectors(serve: Serve) -> None:
    cluster = Recorder(stream(then="silence"))
    selection = {"label_selector": "a=b", "field_selector": "metadata.name=m1"}
    async with cluster.reflected(serve, page=2, uniform=lambda low, _: low, **selection) as reflector:
        await reflector.synced.wait()
        await cluster.until(lambda: len(cluster.queries) >= 3)
    chosen = {"labelSelector": "a=b", "fieldSelector": "metadata.name=m1"}
    assert cluster.queries == [
        {**chosen, "limit": "2"},
        {**chosen, "limit": "2", "continue": "2"},
        {**chosen, "watch": "true", "allowWatchBookmarks": "true", "resourceVersion": "200", "timeoutSeconds": "300"},
    ]


async def test_a_silent_watch_is_abandoned(serve: Serve) -> None:
    cluster = Recorder(stream(then="silence"))
    async with cluster.reflected(serve, timing=ReflectorTiming(idle_s=0.1)):
        await cluster.until(lambda: len(cluster.troubles) >= 2)
    assert all(isinstance(error, KubeError) and error.reason == "Unreachable" for error in cluster.troubles)


async def test_a_watch_without_even_bookmarks_is_replaced_by_a_new_list(serve: Serve) -> None:
    cluster = Recorder(stream(then="silence"))

    async def silent(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await cluster.until(lambda: cluster.clock_reads > 0)  # the watch is open
        cluster.now += 91
        cluster.items, cluster.version = [thing(0)], "150"  # an older backup was restored
        return response

    cluster.watch = after_one(silent, stream(then="silence"), cluster)
    async with cluster.reflected(serve):
        await cluster.until(lambda: cluster.names() == ["m0"])
        await cluster.until(lambda: "watch" in cluster.queries[-1])
    assert cluster.queries[-1]["resourceVersion"] == "150"


async def test_a_list_that_expires_between_two_pages_starts_again(serve: Serve) -> None:
    cluster = Recorder(stream(then="silence"))
    plain, expirations = cluster.answer, iter([True, False])

    async def expire_once(request: web.Request) -> web.StreamResponse:
        if "continue" in request.query and next(expirations, False):
            return await status(410, EXPIRED)(request)
        return await plain(request)

    cluster.answer = expire_once  # type: ignore[method-assign]  # the script is what this test varies
    async with cluster.reflected(serve) as reflector:
        await reflector.synced.wait()
    assert cluster.names() == ["m0", "m1", "m2"]
    assert len(cluster.changes) == 3


async def test_an_object_that_cannot_be_decoded_keeps_its_last_state(serve: Serve) -> None:
    bad = thing(1, 300, spec="not a number")
    cluster = Recorder(stream(line("MODIFIED", bad), line("MODIFIED", thing(0, 301, spec=7)), then="silence"))
    async with cluster.reflected(serve):
        await cluster.until(lambda: any(obj.spec == 7 for obj in cluster.cache))
        assert cluster.cache.get(Key("", "m1")) is not None
        assert [type(error) for error in cluster.troubles] == [Malformed]
        assert "m1" in str(cluster.troubles[0])


async def test_a_list_with_an_object_that_does_not_fit_deletes_nothing(serve: Serve) -> None:
    cluster = Recorder(status(410, EXPIRED))
    async with cluster.reflected(serve):
        await cluster.until(lambda: cluster.lists() >= 2)
        cluster.items[1] = thing(1, 300, spec="not a number")
        lists = cluster.lists()
        await cluster.until(lambda: cluster.lists() >= lists + 3)
    assert cluster.names() == ["m0", "m1", "m2"]
    assert not [before for before, after in cluster.changes if after is None]
