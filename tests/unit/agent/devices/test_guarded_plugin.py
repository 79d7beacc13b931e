"""A plugin that raises, hangs or returns nonsense causes a DevicePluginError, and occupies at most one thread."""

import threading
import time
from enum import Enum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.devices.allocation import MAX_MOUNTS, DeviceAllocation
from agent.devices.guarded_plugin import DevicePluginError, GuardedPlugin
from agent.devices.plugin import Mount
from rig.processes import wait_until
from shared.devices.annotation import encode_node_info, parse_node_info
from shared.devices.info import ContainerInfo, NodeInfo, PodInfo
from tests.builders.device_plugins import CARD, Hanging, StubDevice, raising

SOON_S = 60.0
POD, CONTAINER = PodInfo("p"), ContainerInfo(allocate_from={"resource/group/gpu/0/cards": CARD})


def guarded(**parts: Any) -> GuardedPlugin:
    plugin = GuardedPlugin("label", lambda: StubDevice(**parts), 60)
    plugin.load()
    return plugin


def allocated(answer: object) -> DeviceAllocation:
    return guarded(answer=lambda _pod, _container: answer).allocate(POD, CONTAINER)


def test_the_offer_has_the_node_name_and_what_the_plugin_filled_in() -> None:
    info = guarded().node_info("n1")
    assert (info.name, info.allocatable) == ("n1", {CARD: 1})


def test_an_allocation_has_the_mounts_devices_and_variables_of_the_plugin() -> None:
    mounts = [Mount("/in/the/pod", "/on/the/node"), Mount("/data", "/srv/data", read_only=False)]
    found = allocated((mounts, ["/dev/null"], {"CARDS": "0,1"}))
    assert found == DeviceAllocation(tuple(mounts), ("/dev/null",), {"CARDS": "0,1"})


class _Mode(str, Enum):  # noqa: UP042 - the older way, which plugins use
    NAME = "MODE"
    FAST = "fast"


def test_enums_become_variables_with_their_values() -> None:
    found = allocated(([], [], {_Mode.NAME: _Mode.FAST}))
    assert [f"{name}={value}" for name, value in found.envs.items()] == ["MODE=fast"]


def test_a_plugin_cannot_change_the_pod() -> None:
    def change(pod: PodInfo, container: ContainerInfo) -> object:
        pod.name, pod.running_containers["x"] = "other", ContainerInfo()
        container.allocate_from.clear()
        return [], [], {}

    guarded(answer=change).allocate(POD, CONTAINER)
    assert (POD.name, POD.running_containers) == ("p", {})
    assert CONTAINER.allocate_from


@pytest.mark.parametrize("error", [ValueError("no"), KeyError("k"), SystemExit(1), KeyboardInterrupt(), TimeoutError()])
def test_any_exception_of_a_plugin_becomes_one_error(error: BaseException) -> None:
    plugin = guarded(fill=raising(error))
    with pytest.raises(DevicePluginError, match=f"device plugin stub: update_node_info: {type(error).__name__}"):
        plugin.node_info("n1")


def test_an_exception_without_a_readable_message_is_named_by_its_type() -> None:
    class Silent(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    with pytest.raises(DevicePluginError, match="Silent: its message cannot be read"):
        guarded(fill=raising(Silent())).node_info("n1")


def test_a_message_is_one_printable_line() -> None:
    with pytest.raises(DevicePluginError, match=r"ValueError: one  two   three$"):
        guarded(fill=raising(ValueError("one\n two\x1b\ud800 three"))).node_info("n1")


def test_a_long_message_is_cut() -> None:
    with pytest.raises(DevicePluginError) as caught:
        guarded(fill=raising(ValueError("x" * 100_000))).node_info("n1")
    assert len(str(caught.value)) <= 500


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "did not return mounts, devices and envs"),
        (([], []), "did not return mounts, devices and envs"),
        (({}, [], {}), "the mounts are not a list"),
        (([], "/dev/null", {}), "the devices are not a list"),
        (([], [], ["A=1"]), "the envs are not a dict"),
        (([], [], {"A-B": "1"}), "'A-B' is not the name of an environment variable"),
        (([], [], {"A": 1}), "the value of A is not a string"),
        (([], [], {"A": "x" * 40_000}), "the value of A is not a string"),
        (([], [], {"A": "a\0b"}), "the value of A is not a string"),
        (([], [], {"A": "\ud800"}), "surrogates not allowed"),
        (([], [], {f"A{n}": "" for n in range(300)}), "more than 256 envs"),
        (([], ["dev/null"], {}), "the device 'dev/null' is not an absolute path"),
        (([], [7], {}), "the device 7 is not an absolute path"),
        (([], ["/dev/null"] * 300, {}), "more than 256 devices"),
        (([("/a", "/b")], [], {}), "a mount is not a Mount"),
        (([Mount("/a", "/b", "yes")], [], {}), "a mount is not a Mount"),  # type: ignore[arg-type]
        (([Mount("a", "/b")], [], {}), "the container path 'a' is not an absolute path"),
        (([Mount("/a", "/b/../etc")], [], {}), "the host path '/b/../etc' has empty, dotted"),
        (([Mount("/a//b", "/b")], [], {}), "the container path '/a//b' has empty, dotted"),
        (([Mount("/a\n", "/b")], [], {}), "unprintable"),
        (([Mount("/a", "/b")] * (MAX_MOUNTS + 1), [], {}), "more than 64 mounts"),
    ],
)
def test_an_invalid_allocation_is_refused(answer: object, words: str) -> None:
    with pytest.raises(DevicePluginError) as caught:
        allocated(answer)
    assert words in str(caught.value)


ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9) | st.binary(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9) | st.integers(), inner, max_size=3),
)


@given(ODD, ODD, ODD, ODD, ODD)
def test_node_info_of_a_plugin_is_refused_or_can_be_read_back(
    capacity: Any, allocatable: Any, used: Any, scorer: Any, extended: Any
) -> None:
    def fill(info: NodeInfo) -> None:
        info.capacity, info.allocatable, info.used, info.scorer = capacity, allocatable, used, scorer
        info.kube_cap = extended

    try:
        found = guarded(fill=fill).node_info("n1")
    except DevicePluginError:
        return
    assert parse_node_info(encode_node_info(found)).allocatable == found.allocatable == (allocatable or {})


@given(ODD, ODD, ODD)
def test_an_allocation_is_refused_or_has_absolute_paths_and_textual_variables(
    mounts: Any, devices: Any, envs: Any
) -> None:
    try:
        found = allocated((mounts, devices, envs))
    except DevicePluginError:
        return
    assert all(path.startswith("/") for path in found.devices)
    assert all(isinstance(text, str) for pair in found.envs.items() for text in pair)


def test_a_plugin_that_hangs_has_one_thread_and_is_back_once_it_returns() -> None:
    hanging = Hanging()
    plugin = guarded(answer=hanging)
    plugin._timeout_s = 0.05  # no sooner, because even loading can take longer
    with pytest.raises(DevicePluginError, match=r"allocate: did not return within 0.05 s"):
        plugin.allocate(POD, CONTAINER)
    wait_until(lambda: hanging.calls > 0, SOON_S, "the call to begin")
    for _ in range(20):
        with pytest.raises(DevicePluginError, match="node_info: allocate has not returned yet"):
            plugin.node_info("n1")
    assert hanging.calls == 1
    wait_until(lambda: plugin_threads() == 1, SOON_S, "the threads of earlier calls to end")
    hanging.let_go.set()
    info = until_it_answers(plugin)
    assert info.allocatable == {CARD: 1}


def plugin_threads() -> int:
    return sum(thread.name == "larder-device-label" for thread in threading.enumerate())


def until_it_answers(plugin: GuardedPlugin) -> NodeInfo:
    deadline = time.monotonic() + 30
    while True:
        try:
            return plugin.node_info("n1")
        except DevicePluginError:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_calls_are_serialised() -> None:
    inside, most = [0], [0]
    gate = threading.Lock()

    def answer(_pod: PodInfo, _container: ContainerInfo) -> object:
        with gate:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
        time.sleep(0.001)
        with gate:
            inside[0] -= 1
        return [], [], {}

    plugin = guarded(answer=answer)
    threads = [threading.Thread(target=plugin.allocate, args=(POD, CONTAINER)) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]


def test_a_plugin_that_is_not_loaded_is_named_in_the_error() -> None:
    with pytest.raises(DevicePluginError, match="device plugin label is not loaded"):
        GuardedPlugin("label", StubDevice).node_info("n1")
