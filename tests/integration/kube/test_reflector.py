"""The cache stays equal to the API server despite faults of the connection."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import Annotated, Any, Protocol

import msgspec

from rig.control_plane import ControlPlane
from shared.kube.cache import Cache
from shared.kube.collection import list_objects
from shared.kube.edit import create_if_missing, delete_if_present, merge_patch
from shared.kube.errors import KubeError
from shared.kube.objects import Key, Object
from shared.kube.reflector import Reflector, ReflectorTiming
from shared.kube.transport import Kube

SOON_S = 60


class ProxiedConnection(Protocol):
    @property
    def kube(self) -> Kube: ...
    @property
    def proxy(self) -> "Proxy": ...


class Proxy(Protocol):
    def block(self) -> None: ...
    def unblock(self) -> None: ...
    def cut(self) -> None: ...


OpenProxied = Callable[[], Awaitable[ProxiedConnection]]


class ConfigMap(Object, frozen=True, kw_only=True):
    data: dict[str, str] = {}


class Numbers(Object, frozen=True, kw_only=True):
    """A ConfigMap whose values must be one digit."""

    data: dict[str, Annotated[str, msgspec.Meta(pattern="^[0-9]$")]] = {}


@dataclass
class Watched:
    """A running reflector that records events and errors."""

    reflector: Reflector[ConfigMap] = field(init=False)
    cache: Cache[ConfigMap] = field(init=False)
    deleted: Counter[str] = field(default_factory=Counter)
    troubles: list[str] = field(default_factory=list)
    _progress: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.cache = Cache(self._changed)

    def _changed(self, before: ConfigMap | None, after: ConfigMap | None) -> None:
        if before and not after:
            self.deleted[before.metadata.name] += 1
        self._progress.set()

    def on_error(self, error: Exception, _: float) -> None:
        self.troubles.append(type(error).__name__)
        self._progress.set()

    def names(self) -> set[str]:
        return {obj.metadata.name for obj in self.cache} - {"kube-root-ca.crt"}

    def version(self, name: str) -> str:
        return next((obj.metadata.resource_version for obj in self.cache if obj.metadata.name == name), "")

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(SOON_S):
            while not condition():
                self._progress.clear()
                await self._progress.wait()


@asynccontextmanager
async def watching(kube: Kube, namespace: str, **more: Any) -> AsyncIterator[Watched]:
    watched = Watched()
    watched.reflector = Reflector(kube, maps(namespace), ConfigMap, watched.cache, watched.on_error, **more)
    running = asyncio.create_task(watched.reflector.run())
    try:
        async with asyncio.timeout(SOON_S):
            await watched.reflector.synced.wait()
        yield watched
        assert not running.done()
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def maps(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


async def create(kube: Kube, namespace: str, *names: str, **labels: str) -> None:
    for name in names:
        assert await create_if_missing(kube, maps(namespace), {"metadata": {"name": name, "labels": labels}})


async def touch(kube: Kube, namespace: str, name: str) -> str:
    """Change a ConfigMap once the server accepts it, and return its new version."""
    async with asyncio.timeout(SOON_S):
        while True:
            try:
                changed = await merge_patch(kube, f"{maps(namespace)}/{name}", {"data": {"at": str(monotonic())}})
            except KubeError:
                await asyncio.sleep(0.05)  # a server that starts cannot be waited for otherwise
            else:
                return str(changed["metadata"]["resourceVersion"])


async def test_the_reflector_lists_in_pages_and_follows_every_change(kube: Kube, namespace: str) -> None:
    names = [f"m{number}" for number in range(12)]
    await create(kube, namespace, *names)
    async with watching(kube, namespace, page=5) as watched:
        assert watched.names() == set(names)
        await create(kube, namespace, "new")
        await watched.until(lambda: "new" in watched.names())
        version = await touch(kube, namespace, "m3")
        await watched.until(lambda: watched.version("m3") == version)
        await delete_if_present(kube, f"{maps(namespace)}/m5")
        await watched.until(lambda: "m5" not in watched.names())
        listed = await list_objects(kube, maps(namespace), ConfigMap)
        assert sorted(listed, key=lambda obj: obj.key) == sorted(watched.cache, key=lambda obj: obj.key)
    assert not watched.troubles
    assert watched.deleted == {"m5": 1}


async def test_the_reflector_sees_only_objects_that_match_its_selectors(kube: Kube, namespace: str) -> None:
    await create(kube, namespace, "mine", "other")
    await create(kube, namespace, "labelled", team="a")
    async with (
        watching(kube, namespace, field_selector="metadata.name=mine") as by_name,
        watching(kube, namespace, label_selector="team=a") as by_label,
    ):
        assert (by_name.names(), by_label.names()) == ({"mine"}, {"labelled"})
        await merge_patch(kube, f"{maps(namespace)}/labelled", {"metadata": {"labels": {"team": "b"}}})
        await by_label.until(lambda: not by_label.names())
        version = await touch(kube, namespace, "mine")
        await by_name.until(lambda: by_name.version("mine") == version)
        assert by_name.names() == {"mine"}


async def test_a_watch_event_of_six_megabytes_is_received(kube: Kube, namespace: str) -> None:
    async with watching(kube, namespace) as watched:
        body = {"metadata": {"name": "large"}, "data": {"text": "<" * 1_000_000}}
        await create_if_missing(kube, maps(namespace), body)
        await watched.until(lambda: "large" in watched.names())
    assert not watched.troubles


async def test_a_deletion_while_cut_off_is_reported_once(kube: Kube, namespace: str, open_proxied: OpenProxied) -> None:
    connection = await open_proxied()
    await create(kube, namespace, "doomed", "reborn", "kept")
    async with watching(connection.kube, namespace, timing=ReflectorTiming(idle_s=1)) as watched:
        connection.proxy.block()
        await delete_if_present(kube, f"{maps(namespace)}/doomed")
        await delete_if_present(kube, f"{maps(namespace)}/reborn")
        await create(kube, namespace, "reborn")
        await watched.until(lambda: "Unreachable" in watched.troubles)
        assert not watched.deleted
        connection.proxy.unblock()
        await watched.until(lambda: "doomed" not in watched.names())
        version = await touch(kube, namespace, "reborn")
        await watched.until(lambda: watched.version("reborn") == version)
        assert watched.names() == {"reborn", "kept"}
    assert watched.deleted == {"doomed": 1, "reborn": 1}


async def test_cut_connections_are_opened_again_without_a_list(
    kube: Kube, namespace: str, open_proxied: OpenProxied
) -> None:
    connection = await open_proxied()
    await create(kube, namespace, "m")
    async with watching(connection.kube, namespace) as watched:
        for _ in range(3):
            failures = len(watched.troubles)
            connection.proxy.cut()
            version = await touch(kube, namespace, "m")
            await watched.until(lambda: watched.version("m") == version)  # noqa: B023 - awaited before the next turn
            assert len(watched.troubles) >= failures
    assert set(watched.troubles) <= {"Unreachable"}
    assert not watched.deleted


async def test_the_reflector_survives_a_restart_of_the_api_server(
    kube: Kube, namespace: str, control_plane: ControlPlane
) -> None:
    names = [f"m{number}" for number in range(20)]
    await create(kube, namespace, *names)
    async with watching(kube, namespace) as watched:
        await asyncio.to_thread(control_plane.restart_apiserver)
        version = await touch(kube, namespace, "m7")
        await watched.until(lambda: watched.version("m7") == version)
        assert watched.names() == set(names)
    assert not watched.deleted
    assert 0 < len(watched.troubles) < 60


async def test_a_deletion_missed_because_of_an_expired_version_is_reported_once(
    kube: Kube, namespace: str, control_plane: ControlPlane, open_proxied: OpenProxied
) -> None:
    connection = await open_proxied()
    await create(kube, namespace, "doomed", "kept")
    async with watching(connection.kube, namespace, timing=ReflectorTiming(idle_s=1)) as watched:
        connection.proxy.block()
        await delete_if_present(kube, f"{maps(namespace)}/doomed")
        await touch(kube, namespace, "kept")
        await asyncio.to_thread(control_plane.restart_apiserver)  # its watch cache begins now: older versions are gone
        version = await touch(kube, namespace, "kept")
        connection.proxy.unblock()
        await watched.until(lambda: watched.version("kept") == version)
        assert watched.names() == {"kept"}
        assert "Expired" in watched.troubles
    assert watched.deleted == {"doomed": 1}


async def test_an_object_that_cannot_be_decoded_does_not_hide_others(kube: Kube, namespace: str) -> None:
    await create(kube, namespace, "good", "bad")
    troubles: list[str] = []
    seen = asyncio.Event()
    cache: Cache[Numbers] = Cache(lambda _, __: seen.set())
    reflector = Reflector(kube, maps(namespace), Numbers, cache, lambda error, _: troubles.append(str(error)))
    running = asyncio.create_task(reflector.run())
    await asyncio.wait_for(reflector.synced.wait(), SOON_S)
    held = cache.get(Key(namespace, "bad"))
    await merge_patch(kube, f"{maps(namespace)}/bad", {"data": {"n": "x"}})
    await merge_patch(kube, f"{maps(namespace)}/good", {"data": {"n": "7"}})
    async with asyncio.timeout(SOON_S):
        while (good := cache.get(Key(namespace, "good"))) is None or not good.data:
            seen.clear()
            await seen.wait()
    assert cache.get(Key(namespace, "bad")) == held
    assert troubles
    assert all("/bad" in on_error or "kube-root-ca.crt" in on_error for on_error in troubles)
    running.cancel()
