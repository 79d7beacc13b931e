"""What device plugins answer, put together."""

from typing import Any

import pytest

from agent.devices.guarded import GuardedPlugin
from agent.devices.plugin import Allocated, Mount
from agent.dra.decide import AllocateRequest
from agent.dra.edits import PluginEdits
from agent.dra.errors import PrepareRefused
from agent.dra.plugins import NodePlugins
from shared.devices.info import ContainerInfo, NodeInfo, PodInfo

CONTAINER = ContainerInfo(allocate_from={"gpu": "gpu/3"})
REQUEST = AllocateRequest(0, "main", PodInfo(running_containers={"main": CONTAINER}), CONTAINER)
GPU: Allocated = ([Mount("/opt/lib", "/usr/lib/gpu", read_only=False)], ["/dev/gpu3"], {"GPU": "3"})


class _Plugin:
    """Answers as it was told to."""

    def __init__(self, name: str, answer: object, starts: bool = True) -> None:  # noqa: FBT001, FBT002 - a double
        self.name, self._answer, self.starts = name, answer, starts

    def new(self) -> None:
        """Do nothing."""

    def start(self) -> None:
        if not self.starts:
            raise OSError("no GPU here")

    def update_node_info(self, node_info: NodeInfo) -> None:
        """Offer nothing."""

    def allocate(self, pod_info: PodInfo, container_info: ContainerInfo) -> Any:
        assert container_info.allocate_from == pod_info.running_containers["main"].allocate_from
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


def _plugins(*plugins: _Plugin) -> NodePlugins:
    return NodePlugins(lambda: [GuardedPlugin(each.name, lambda each=each: each) for each in plugins])  # type: ignore[misc]


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


async def test_a_plugin_that_did_not_start_fails_a_container_only_if_no_other_knows_its_devices() -> None:
    missing = _Plugin("bad", GPU, starts=False)
    assert (await _plugins(missing, _Plugin("a", GPU)).allocate(REQUEST)).devices == ("/dev/gpu3",)
    with pytest.raises(PrepareRefused, match="no GPU here"):
        await _plugins(missing, _Plugin("a", ([], [], {}))).allocate(REQUEST)


async def test_a_plugin_that_did_not_start_is_retried() -> None:
    plugin = _Plugin("bad", GPU, starts=False)
    plugins = _plugins(plugin)
    plugins.retry_s = 0
    with pytest.raises(PrepareRefused):
        await plugins.allocate(REQUEST)
    plugin.starts = True
    assert (await plugins.allocate(REQUEST)).devices == ("/dev/gpu3",)


@pytest.mark.parametrize("other", [([Mount("/opt/lib", "/etc")], [], {}), ([], [], {"GPU": "4"})])
async def test_answers_that_contradict_each_other_are_refused(other: Allocated) -> None:
    with pytest.raises(PrepareRefused, match="two device plugins"):
        await _plugins(_Plugin("a", GPU), _Plugin("b", other)).allocate(REQUEST)
