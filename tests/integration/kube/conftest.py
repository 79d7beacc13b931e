"""Direct and interruptible connections to the real API server, and namespaces for tests."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field, replace
from uuid import uuid4

import pytest

from rig.control_plane import ControlPlane
from shared.kube.collection import get_object
from shared.kube.edit import create_if_missing, delete_if_present
from shared.kube.objects import Object
from shared.kube.transport import Kube, connect

SOON_S = 60


@dataclass(slots=True)
class Proxy:
    """A proxy for the API server; `block` drops every byte but closes nothing, like a network failure."""

    target: tuple[str, int]
    port: int = 0
    _open: asyncio.Event = field(default_factory=asyncio.Event)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def block(self) -> None:
        self._open.clear()

    def unblock(self) -> None:
        self._open.set()

    def cut(self) -> None:
        """Close all connections."""
        for task in self._tasks:
            task.cancel()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        with suppress(OSError, asyncio.CancelledError):
            await self._forward(reader, writer)
        writer.transport.abort()
        self._tasks.discard(task)

    async def finish(self) -> None:
        tasks = list(self._tasks)
        self.cut()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._open.wait()
        far_reader, far_writer = await asyncio.open_connection(*self.target)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._copy(reader, far_writer))
                both.create_task(self._copy(far_reader, writer))
        except* OSError:
            pass  # one side closed, so close the other
        finally:
            far_writer.transport.abort()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            await self._open.wait()
            writer.write(data)
            await writer.drain()
        writer.close()


@dataclass(frozen=True, slots=True)
class ProxiedConnection:
    """A connection through its own proxy."""

    kube: Kube
    proxy: Proxy


@pytest.fixture
async def kube(control_plane: ControlPlane) -> AsyncIterator[Kube]:
    async with connect(control_plane.kubeconfig) as connection:
        yield connection


@pytest.fixture
async def open_proxied(control_plane: ControlPlane) -> AsyncIterator[Callable[[], Awaitable[ProxiedConnection]]]:
    """Open a connection to the API server that the test can block and cut."""
    async with AsyncExitStack() as stack:

        async def make() -> ProxiedConnection:
            proxy = Proxy(control_plane.server)
            proxy.unblock()
            server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
            stack.callback(server.close)
            stack.push_async_callback(proxy.finish)
            proxy.port = server.sockets[0].getsockname()[1]
            connection = await stack.enter_async_context(connect(control_plane.kubeconfig))
            access = replace(connection.access, server=f"https://127.0.0.1:{proxy.port}")
            return ProxiedConnection(replace(connection, access=access), proxy)

        yield make


@pytest.fixture
async def namespace(kube: Kube) -> AsyncIterator[str]:
    """A namespace of this test; no other program will create a ConfigMap in it."""
    name = f"kube-{uuid4().hex[:12]}"
    await create_if_missing(kube, "/api/v1/namespaces", {"metadata": {"name": name}})
    async with asyncio.timeout(SOON_S):
        while await get_object(kube, f"/api/v1/namespaces/{name}/configmaps/kube-root-ca.crt", Object) is None:  # noqa: ASYNC110 - the controller manager gives no signal
            await asyncio.sleep(0.05)
    yield name
    await delete_if_present(kube, f"/api/v1/namespaces/{name}")
