"""Models and free space as devices, and how a scheduler uses them."""

import structlog

from agent.devices.combine_offers import MAX_ANNOTATION_BYTES
from agent.devices.models_plugin import (
    MAX_MODELS_TEXT,
    STORE_BYTES,
    ModelDevices,
    fitting,
    id_leaf,
    ready_leaf,
    stepped_use,
)
from agent.devices.store_contents import StoreContents
from agent.devices.validate_offer import offer_of
from controller.devices.schedule import schedule
from shared.devices.annotation import encode_node_info, parse_node_info
from shared.devices.info import ContainerInfo, NodeInfo, PodInfo

GIB = 2**30
LONG = "team-a_" + "m" * 200


def offered(*ready: str, name: str = "n1", used: int = 0) -> NodeInfo:
    """Return the plugin's offer, written to the annotation and read back."""
    info = NodeInfo(name)
    ModelDevices(lambda: StoreContents(ready, 100 * GIB, 90 * GIB, used)).update_node_info(info)
    return parse_node_info(encode_node_info(offer_of(info, name, ("larder.dev/",))))


def pod(*requests: str, amount: int = 1) -> PodInfo:
    return PodInfo("p", running_containers={"main": ContainerInfo(requests=dict.fromkeys(requests, amount))})


def test_models_and_bytes_are_offered() -> None:
    info = offered("llama", "team-a_qwen", used=GIB)
    assert info.capacity[STORE_BYTES] == 100 * GIB
    assert info.allocatable[STORE_BYTES] == 90 * GIB
    assert GIB <= info.used[STORE_BYTES] <= 3 * GIB
    assert info.allocatable["resource/group/model/llama/ready"] == 1
    assert info.allocatable["resource/group/model/team-a_qwen/id/team-a_qwen"] == 1


def test_a_pod_fits_only_the_node_that_has_its_model() -> None:
    nodes = [offered("qwen", name="n1"), offered("llama", "qwen", name="n2"), offered(name="n3")]
    decision = schedule(nodes, pod(id_leaf("llama")))
    assert decision.node == "n2"
    assert decision.reasons.keys() == {"n1", "n3"}
    assert decision.pod.running_containers["main"].allocate_from == {id_leaf("llama"): id_leaf("llama")}


def test_any_ready_model_matches_a_request_for_any() -> None:
    """In a request, the name of a place only groups leaves."""
    assert schedule([offered(), offered("qwen", name="n2")], pod(ready_leaf("llama"))).node == "n2"


def test_the_ready_and_id_leaves_of_a_request_must_belong_to_the_same_model() -> None:
    request = pod("resource/group/model/0/ready", "resource/group/model/0/id/llama")
    assert schedule([offered("llama")], request).node == "n1"
    assert schedule([offered("qwen")], request).node is None


def test_any_number_of_pods_may_use_one_model() -> None:
    node = offered("llama")
    node.used = {**node.used, id_leaf("llama"): 1, ready_leaf("llama"): 1}
    assert schedule([node], pod(id_leaf("llama"), ready_leaf("llama"))).node == "n1"


def test_space_for_more_can_be_requested() -> None:
    nodes = [offered(used=80 * GIB), offered(name="n2", used=10 * GIB)]
    assert schedule(nodes, pod(STORE_BYTES, amount=40 * GIB)).node == "n2"
    assert schedule(nodes, pod(STORE_BYTES, amount=95 * GIB)).node is None


def test_long_ids_are_shortened_and_stay_distinct() -> None:
    assert id_leaf(LONG) != id_leaf(LONG + "m")
    info = offered(LONG, LONG + "m")
    assert {id_leaf(LONG), id_leaf(LONG + "m"), ready_leaf(LONG)} <= info.allocatable.keys()
    assert max(map(len, info.allocatable)) < 150


def test_models_beyond_the_limit_are_left_out_and_reported_once() -> None:
    many = tuple(f"team-{n:04d}_{'m' * 40}" for n in range(1000))
    plugin = ModelDevices(lambda: StoreContents(many, 100 * GIB, 90 * GIB, 0))
    with structlog.testing.capture_logs() as logs:
        for _ in range(3):
            info = NodeInfo("n1")
            plugin.update_node_info(info)
    text = encode_node_info(info)
    assert len(text) < MAX_ANNOTATION_BYTES
    chosen = fitting(many)
    assert 100 < len(chosen) < 1000
    assert len(text) <= MAX_MODELS_TEXT + 500
    assert [(log["event"], log["count"]) for log in logs] == [("models_not_advertised", 1000 - len(chosen))]


def test_a_thousand_models_are_offered_up_to_the_limit() -> None:
    names = [f"m{n}" for n in range(1000)]
    info = offered(*names)
    assert len(info.allocatable) == 1 + 2 * len(fitting(names))


def test_the_used_bytes_are_rounded_up_to_64_steps() -> None:
    steps = {stepped_use(used, 64 * GIB) for used in range(0, 64 * GIB, GIB // 7)}
    assert len(steps) == 65
    assert stepped_use(1, 64 * GIB) == GIB
    assert stepped_use(64 * GIB, 64 * GIB) == 64 * GIB
    assert stepped_use(5, 7) == 5
    assert stepped_use(0, 0) == 0


def test_the_models_plugin_adds_nothing_to_containers() -> None:
    plugin = ModelDevices(StoreContents)
    plugin.new()
    plugin.start()
    assert plugin.allocate(PodInfo(), ContainerInfo()) == ((), (), {})
