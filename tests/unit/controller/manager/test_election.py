"""Leader election beside the controller's other requests."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from controller.manager.manager import Manager, ManagerSettings
from controller.manager.metrics import Metrics
from controller.state.kinds.ownership import Ownership
from shared.kube.transport import Kube
from tests.builders.api_server import connected

SETTINGS = ManagerSettings("ns", "me", "lease", 15, {}, workers=1, listen_health="127.0.0.1:0")
LEASE = {"metadata": {"name": "lease", "resourceVersion": "1"}, "spec": {}}


class SlowReviews:
    """A server that answers everything but reviews of tokens."""

    def __init__(self) -> None:
        self.asked, self.is_asked = 0, asyncio.Event()

    async def answer(self, request: web.Request) -> web.Response:
        await request.read()
        if request.path == "/reviews":
            self.asked += 1
            self.is_asked.set()
            await asyncio.Event().wait()
        return web.json_response(LEASE)


@pytest.fixture
async def kubes(tmp_path: Path) -> AsyncIterator[tuple[Kube, Kube]]:
    """Two connections to a server; all requests that the first one may have at a time wait for an answer."""
    server = SlowReviews()
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    async with connected(server.answer, tmp_path / "a") as busy, connected(server.answer, tmp_path / "b") as other:
        flood = [asyncio.create_task(busy.request("POST", "/reviews", body={})) for _ in range(200)]
        while server.asked < busy.session.connector.limit:  # type: ignore[union-attr]  # it is open
            server.is_asked.clear()
            await server.is_asked.wait()
        yield busy, other
        for task in flood:
            task.cancel()
        await asyncio.gather(*flood, return_exceptions=True)


async def test_no_other_request_delays_the_renewal_of_the_lease(kubes: tuple[Kube, Kube]) -> None:
    manager = Manager(kubes[0], Ownership(), SETTINGS, Metrics(), kubes[1])
    async with asyncio.timeout(4):  # below the time that a request may wait for a free connection
        assert await manager._elector.lock.acquire()
