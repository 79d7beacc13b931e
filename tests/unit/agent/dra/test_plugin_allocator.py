"""The merged answers of device plugins."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agent.devices.guarded_plugin import GuardedPlugin
from agent.devices.models_plugin import STORE_BYTES, id_leaf, ready_leaf
from agent.devices.plugin import Allocated, Mount
from agent.dra.cdi_edits import PluginEdits
from agent.dra.decide import AllocateRequest
from agent.dra.errors import PrepareRefused
from agent.dra.plugin_allocator import PluginAllocator, device_plugins
from shared.backoff import Backoff
from shared.devices.info import ContainerInfo, NodeInfo, PodInfo
from tests.builders.device_plugins import Hanging, StubDevice

CONTAINER = ContainerInfo(allocate_from={"gpu": "gpu/3"})
REQUEST = AllocateRequest(0, "main", PodInfo(running_containers={"main": CONTAINER}), CONTAINER)
GPU: Allocated = ([Mount("/opt/lib", "/usr/lib/gpu", read_only=False)], ["/dev/gpu3"], {"GPU": "3"})


class _Plugin:
    """A device plugin with a fixed answer."""

    def __init__(self, name: str, answer: object, starts: bool = True, offers: Sequence[str] = ()) -> None:  # noqa: FBT001, FBT002 - a double
        self.name, self._answer, self.starts, self._offers = name, answer, starts, offers
        self.started = 0

    def new(self) -> None:
        """Do nothing."""

    def start(self) -> None:
        if not self.starts:
            raise OSError("no GPU here")
        self.started += 1

    def update_node_info(self, node_info: NodeInfo) -> None:
        node_info.allocatable |= dict.fromkeys(self._offers, 1)

    def allocate(self, pod_info: PodInfo, container_info: ContainerInfo) -> Any:
        assert container_info.allocate_from == pod_info.running_containers["main"].allocate_from
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


def _plugins(*plugins: _Plugin) -> PluginAllocator:
    return PluginAllocator(
        lambda: [GuardedPlugin(each.name, lambda each=each: each) for each in plugins],  # type: ignore[misc]
        Backoff(first_s=0, cap_s=0),
    )


def _request(*devices: str) -> AllocateRequest:
    """Return the request of a container that got these devices."""
    container = ContainerInfo(allocate_from={f"r{i}": device for i, device in enumerate(devices)})
    return AllocateRequest(0, "main", PodInfo(node_name="n", running_containers={"main": container}), container)


async def test_the_edits_of_all_plugins_are_merged() -> None:
    other: Allocated = ([], ["/dev/fuse", "/dev/gpu3"], {"GPU": "3", "B": "c"})
    edits = await _plugins(_Plugin("a", GPU), _Plugin("b", other)).allocate(REQUEST)
    assert edits == PluginEdits({"/opt/lib": "/usr/lib/gpu"}, ("/dev/gpu3", "/dev/fuse"), {"GPU": "3", "B": "c"})


async def test_without_plugins_nothing_is_added() -> None:
    assert await _plugins().allocate(REQUEST) == PluginEdits()


@pytest.mark.parametrize("answer", [OSError("boom"), None, ([], [], {"a b": "c"}), (["/x"], [], {})])
async def test_a_plugin_that_fails_stops_the_container(answer: object) -> None:
    with pytest.raises(PrepareRefused, match="bad"):
        await _plugins(_Plugin("a", GPU), _Plugin("bad", answer)).allocate(REQUEST)


async def test_a_plugin_that_fails_does_not_stop_containers_without_its_devices() -> None:
    plugins = _plugins(_Plugin("a", GPU, offers=["gpu/3"]), _Plugin("bad", OSError("boom"), offers=["nic/1"]))
    assert (await plugins.allocate(_request("gpu/3", STORE_BYTES))).devices == ("/dev/gpu3",)
    with pytest.raises(PrepareRefused, match=r"container main got nic/1, which .*bad: allocate: OSError: boom"):
        await plugins.allocate(_request("gpu/3", "nic/1"))


async def test_a_container_with_a_device_of_a_plugin_that_did_not_start_waits() -> None:
    """With only some of its devices, the container would fail in ways that are hard to explain."""
    missing, gpus = _Plugin("bad", GPU, starts=False), _Plugin("a", GPU, offers=["gpu/3"])
    plugins = _plugins(missing, gpus)
    assert (await plugins.allocate(_request("gpu/3"))).devices == ("/dev/gpu3",)
    with pytest.raises(PrepareRefused, match=r"container main got nic/1, which .*; some .* failed: bad: .*no GPU here"):
        await plugins.allocate(_request("gpu/3", "nic/1"))


async def test_devices_of_the_plugin_models_need_no_plugin_in_the_driver() -> None:
    plugins = _plugins(_Plugin("bad", GPU, starts=False))
    assert await plugins.allocate(_request(ready_leaf("qwen"), id_leaf("qwen"), STORE_BYTES)) == PluginEdits()


async def test_a_running_plugin_that_cannot_say_what_it_offers_is_named() -> None:
    broken = _Plugin("broken", GPU, offers=["a" * 1000])
    with pytest.raises(PrepareRefused, match="broken: update_node_info"):
        await _plugins(_Plugin("bad", GPU, starts=False), broken).allocate(_request("gpu/3"))


async def test_the_names_of_extended_resources_do_not_matter_to_the_driver(tmp_path: Path) -> None:
    """The agent checks them against its settings, which the driver does not have."""
    offered = tmp_path / "devices.json"
    offered.write_text('{"allocatable": {"gpu/3": 1}, "kubealloc": {"example.org/gpu": 1}}')
    missing = GuardedPlugin("bad", lambda: _Plugin("bad", GPU, starts=False))
    edits = await PluginAllocator(lambda: [missing, *device_plugins(offered)]).allocate(_request("gpu/3"))
    assert edits.env == {"LARDER_EXAMPLE_DEVICES": "gpu/3"}


async def test_a_plugin_that_did_not_start_is_retried_and_the_others_are_not_started_again() -> None:
    plugin, other = _Plugin("bad", GPU, starts=False), _Plugin("a", ([], [], {}))
    plugins = _plugins(plugin, other)
    with pytest.raises(PrepareRefused):
        await plugins.allocate(REQUEST)
    plugin.starts = True
    assert (await plugins.allocate(REQUEST)).devices == ("/dev/gpu3",)
    assert other.started == 1


async def test_a_plugin_that_hangs_while_it_starts_has_one_thread() -> None:
    hanging = Hanging()
    stuck = GuardedPlugin("stuck", lambda: StubDevice(on_start=hanging), timeout_s=0.05)
    plugins = PluginAllocator(lambda: [stuck], Backoff(first_s=0, cap_s=0))

    async def refuse() -> None:
        with pytest.raises(PrepareRefused, match="stuck"):
            await plugins.allocate(REQUEST)

    async with asyncio.timeout(60):
        while not hanging.calls:  # on a busy machine, even loading can take longer than that
            await refuse()
    for _ in range(3):
        await refuse()
    assert hanging.calls == 1
    hanging.let_go.set()


async def test_a_plugin_may_take_as_long_as_the_settings_say(tmp_path: Path) -> None:
    path = tmp_path / "devices.json"
    os.mkfifo(path)  # reading it takes until somebody writes
    plugins = PluginAllocator(lambda: device_plugins(path, timeout_s=1))  # time enough to load it on a busy machine
    with pytest.raises(PrepareRefused, match=r"example: start: did not return within 1 s"):
        await plugins.allocate(REQUEST)
    path.write_text("{}")


async def test_plugins_continue_to_start_after_a_claim_has_timed_out() -> None:
    hanging = Hanging()
    slow = GuardedPlugin("slow", lambda: StubDevice(on_start=hanging))
    plugins = PluginAllocator(lambda: [slow])
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await plugins.allocate(REQUEST)
    hanging.let_go.set()
    assert await plugins.allocate(REQUEST) == PluginEdits()
    assert hanging.calls == 1


@pytest.mark.parametrize("other", [([Mount("/opt/lib", "/etc")], [], {}), ([], [], {"GPU": "4"})])
async def test_answers_that_contradict_each_other_are_refused(other: Allocated) -> None:
    with pytest.raises(PrepareRefused, match="two device plugins"):
        await _plugins(_Plugin("a", GPU), _Plugin("b", other)).allocate(REQUEST)
