"""When the driver waits and when it continues, with an HTTP server in place of the API server."""

from pathlib import Path
from typing import Any

import pytest

from agent.dra.dra_support import DraSupport
from shared.dra import RESOURCES
from tests.builders.api_server import Objects, serving

NODE = "/api/v1/nodes/n"


def _node(runtime: str) -> dict[str, Any]:
    return {"metadata": {"name": "n", "uid": "u1"}, "status": {"nodeInfo": {"containerRuntimeVersion": runtime}}}


@pytest.fixture
def objects() -> Objects:
    return Objects({RESOURCES: {}, NODE: _node("containerd://2.2.9")})


async def _reported(objects: Objects, folder: Path, *mends: dict[str, Any]) -> list[str]:
    """Wait for the gate, put these objects there at each pause, and return what was reported."""
    said: list[str] = []
    left = list(mends)

    async def report(problem: str) -> None:
        said.append(problem)

    async def pause(_seconds: float) -> None:
        objects.down = False
        objects.objects |= left.pop(0)

    async with serving(objects, folder) as kube:
        assert (await DraSupport(kube, "n", report, sleep=pause).wait()).uid == "u1"
    assert left == []
    return said


async def test_a_node_that_supports_devices_has_no_problem(objects: Objects, tmp_path: Path) -> None:
    assert await _reported(objects, tmp_path) == []


async def test_a_missing_resource_api_is_reported_once_and_waited_for(objects: Objects, tmp_path: Path) -> None:
    """The driver waits instead of exiting, because kubelet would restart it for ever."""
    del objects.objects[RESOURCES]
    first, last = await _reported(objects, tmp_path, {}, {}, {RESOURCES: {}})
    assert "does not serve resource.k8s.io/v1" in first
    assert last == ""


async def test_a_runtime_that_ignores_devices_is_waited_for(objects: Objects, tmp_path: Path) -> None:
    objects.objects[NODE] = _node("containerd://1.6.20")
    first, last = await _reported(objects, tmp_path, {NODE: _node("containerd://2.0.0")})
    assert "containerd 1.7 or newer" in first
    assert last == ""


async def test_an_api_server_that_is_away_is_waited_for(objects: Objects, tmp_path: Path) -> None:
    objects.down = True
    first, last = await _reported(objects, tmp_path, {})
    assert "etcd is away" in first
    assert last == ""
