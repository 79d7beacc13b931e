"""The publisher and an API server that drops fields, played by an HTTP server."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from agent.dra.devices import LEAVING_TAINT, DiskSnapshot, ModelDevice
from agent.dra.publisher import SlicePublisher
from agent.dra.slices import PoolOwner
from shared.dra import FETCH_DEVICE
from shared.kube.errors import KubeError
from tests.builders.api_server import connected

OPEN = ModelDevice(DiskSnapshot("open", "r", "/m"))
LEAVING = ModelDevice(DiskSnapshot("leaving", "r", "/m"), LEAVING_TAINT)


class _OldServer:
    """Stores slices without the fields that its feature gates drop."""

    def __init__(self) -> None:
        self.slices: dict[str, dict[str, Any]] = {}
        self.writes = 0
        self.ends_after = 0
        self.dropped = {"taints", "allowMultipleAllocations"}

    async def answer(self, request: web.Request) -> web.Response:
        if request.method == "GET":
            return web.json_response({"metadata": {"resourceVersion": "1"}, "items": list(self.slices.values())})
        body = await request.json()
        if self.ends_after and self.writes >= self.ends_after:
            return web.json_response({"code": 409, "message": "changed"}, status=409)
        self.writes += 1
        body["metadata"]["resourceVersion"] = str(self.writes)
        for device in body["spec"]["devices"]:
            for name in self.dropped:
                device.pop(name, None)
        self.slices[body["metadata"]["name"]] = body
        return web.json_response(body)

    def names(self) -> list[str]:
        return [device["name"] for body in self.slices.values() for device in body["spec"]["devices"]]


@pytest.fixture
def server() -> _OldServer:
    return _OldServer()


@pytest.fixture
async def publisher(server: _OldServer, tmp_path: Path) -> AsyncIterator[SlicePublisher]:
    async with connected(server.answer, tmp_path) as kube:
        yield SlicePublisher(kube, PoolOwner("n", "u1"))


async def test_slices_are_not_rewritten_because_an_old_server_drops_fields(
    publisher: SlicePublisher, server: _OldServer
) -> None:
    assert await publisher.publish([OPEN])
    assert not await publisher.publish([OPEN])
    assert server.writes == 1
    assert server.names() == [FETCH_DEVICE, OPEN.model.device]


async def test_devices_are_shared_once_the_feature_gate_is_on_and_the_driver_restarted(
    publisher: SlicePublisher, server: _OldServer
) -> None:
    await publisher.publish([OPEN])
    again = SlicePublisher(publisher.kube, publisher.owner)
    assert await again.publish([OPEN])
    assert not await again.publish([OPEN])  # the gate is still off
    server.dropped = set()
    restarted = SlicePublisher(publisher.kube, publisher.owner)
    assert await restarted.publish([OPEN])
    (body,) = server.slices.values()
    assert all(device["allowMultipleAllocations"] for device in body["spec"]["devices"])
    for each in (restarted, SlicePublisher(publisher.kube, publisher.owner)):
        assert not await each.publish([OPEN])


async def test_devices_with_a_taint_are_not_published_if_the_server_drops_taints(
    publisher: SlicePublisher, server: _OldServer
) -> None:
    assert await publisher.publish([OPEN, LEAVING])
    assert server.names() == [FETCH_DEVICE, OPEN.model.device]
    assert not await publisher.publish([OPEN, LEAVING])


async def test_a_driver_that_ends_before_it_leaves_out_devices_without_their_taint_leaves_them_out_when_it_restarts(
    publisher: SlicePublisher, server: _OldServer
) -> None:
    server.dropped, server.ends_after = {"taints"}, 1
    with pytest.raises(KubeError):
        await publisher.publish([OPEN, LEAVING])
    server.ends_after = 0
    assert LEAVING.model.device in server.names()
    restarted = SlicePublisher(publisher.kube, publisher.owner)
    assert await restarted.publish([OPEN, LEAVING])
    assert server.names() == [FETCH_DEVICE, OPEN.model.device]
    assert not await restarted.publish([OPEN, LEAVING])
