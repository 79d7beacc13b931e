"""The whole driver, with an HTTP server in place of the API server, and registered over gRPC as by kubelet."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import grpc
import pytest
from aiohttp import web
from structlog.testing import capture_logs

from agent.dra.driver import Driver
from agent.dra.kubelet_server import KubeletServer
from agent.dra.messages import REGISTRATION, message_class
from agent.dra.plugin_allocator import PluginAllocator
from agent.dra.settings import read_settings
from shared.api.model_node import PATH
from shared.dra import DRIVER, RESOURCE_CLAIMS, RESOURCES, SLICES
from tests.builders.api_server import Objects, connected, listed

SOON_S = 60
NODE = {
    "metadata": {"name": "n", "uid": "u1"},
    "status": {"nodeInfo": {"containerRuntimeVersion": "containerd://2.2.9"}},
}


class _SlowWrites(Objects):
    """Answers writes once the test lets it."""

    def __init__(self, objects: Mapping[str, Any]) -> None:
        super().__init__(objects)
        self.arrived, self.go_on = asyncio.Event(), asyncio.Event()

    async def answer(self, request: web.Request) -> web.Response:
        if request.method == "POST":
            self.arrived.set()
            await self.go_on.wait()
        return await super().answer(request)


@pytest.fixture
async def objects() -> _SlowWrites:
    """A cluster without models."""
    lists = dict.fromkeys((PATH, SLICES, RESOURCE_CLAIMS), listed())
    return _SlowWrites({RESOURCES: {}, "/api/v1/nodes/n": NODE} | lists)


@pytest.fixture
async def driver(objects: _SlowWrites, tmp_path: Path) -> AsyncIterator[Driver]:
    """A running driver, whose sockets have short paths."""
    stop = asyncio.Event()
    with tempfile.TemporaryDirectory() as kubelet:
        settings = read_settings(
            ["--node-name=n", f"--root={tmp_path}", f"--kubelet={kubelet}", f"--cdi={tmp_path}/cdi"]
        )
        async with connected(objects.answer, tmp_path) as kube:
            driver = Driver(settings, kube, PluginAllocator(), _ignore)
            async with asyncio.TaskGroup() as group:
                group.create_task(driver.run(stop))
                yield driver
                stop.set()


async def _ignore(_problem: str) -> None:
    pass


async def _notify(driver: Driver, **status: Any) -> None:
    socket = KubeletServer(driver.settings.kubelet, driver).registration
    async with asyncio.timeout(SOON_S), grpc.aio.insecure_channel(f"unix:{socket}") as channel:
        rpc: Any = channel.unary_unary(
            f"/{REGISTRATION}.Registration/NotifyRegistrationStatus",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=message_class(REGISTRATION, "RegistrationStatusResponse").FromString,
        )
        await rpc(message_class(REGISTRATION, "RegistrationStatus")(**status), wait_for_ready=True)


async def test_devices_are_published_again_after_an_unforeseen_error(driver: Driver, objects: _SlowWrites) -> None:
    published = asyncio.Event()
    answers: list[dict[str, Any]] = [{}]  # the first answer lacks everything that the API server promises

    def answer(body: dict[str, Any]) -> dict[str, Any]:
        if answers:
            return answers.pop()
        published.set()
        return body

    objects.posts[SLICES] = answer
    objects.go_on.set()
    await _notify(driver, plugin_registered=True)
    async with asyncio.timeout(SOON_S):
        await published.wait()


async def test_the_driver_is_not_ready_if_kubelet_refuses_it_while_slices_are_written(
    driver: Driver, objects: _SlowWrites
) -> None:
    objects.posts[SLICES] = lambda body: body
    await _notify(driver, plugin_registered=True)
    async with asyncio.timeout(SOON_S):
        await objects.arrived.wait()
        await _notify(driver, plugin_registered=False, error="not now")
        with capture_logs() as logs:
            objects.go_on.set()
            while not any(each["event"] == "devices_published" for each in logs):  # noqa: ASYNC110 - a log is no signal
                await asyncio.sleep(0.01)
    assert "not now" in (driver.settings.kubelet / "plugins" / DRIVER / "status").read_text()
