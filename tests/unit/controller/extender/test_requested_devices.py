"""The requests of pods are read only from the fields that users may write."""

import json

import pytest

from controller.extender.requested_devices import allocated_devices, requested_devices
from shared.devices.annotation import MAX_REQUEST_BYTES, InvalidDeviceInfo, encode_pod_info
from shared.devices.scheduler import DEVICES_RESOURCE
from tests.builders.devices import CARD, bound_pod, card, device_pod


def test_a_pod_without_annotation_requests_nothing() -> None:
    assert not requested_devices(device_pod("p"))
    assert not requested_devices(device_pod("p", annotation='{"runningcontainer": {"main": {"scorer": {"a": 1}}}}'))


def test_a_request_of_0_asks_for_nothing() -> None:
    assert not requested_devices(device_pod("p", {CARD: 0}))
    assert not requested_devices(device_pod("p", annotation='{"requests": {"gpu/gpu-generate-topology": 0}}'))


def test_fields_that_only_a_scheduler_may_write_are_left_out() -> None:
    forged = {"requests": {CARD: 1}, "devrequests": {CARD: 0}, "allocatefrom": {CARD: card("a")}, "scorer": {CARD: 1}}
    requested = requested_devices(
        device_pod("p", annotation=json.dumps({"nodename": "n", "runningcontainer": {"main": forged}}))
    )
    container = requested.info.running_containers["main"]
    assert (container.requests, container.scorer) == ({CARD: 1}, {CARD: 1})
    assert (container.dev_requests, container.allocate_from, requested.info.node_name) == ({}, {}, "")


def test_pods_with_equal_requests_have_the_same_key() -> None:
    one, other = device_pod("p", {CARD: 1, card("1"): 1}), device_pod("q", {card("1"): 1, CARD: 1})
    assert (
        requested_devices(one).key == requested_devices(other).key != requested_devices(device_pod("r", {CARD: 1})).key
    )


def test_the_key_of_a_large_request_is_short() -> None:
    """Up to 50,000 keys are cached, and users choose the requests."""
    assert len(requested_devices(device_pod("p", {f"{i}": 1 for i in range(250)})).key) == 32


def test_unknown_keys_are_part_of_the_key() -> None:
    def key(zone: str, rack: str) -> bytes:
        main = {"requests": {CARD: 1}, "rack": rack}
        return requested_devices(
            device_pod("p", annotation=json.dumps({"zone": zone, "runningcontainer": {"main": main}}))
        ).key

    assert len({key("a", "1"), key("b", "1"), key("a", "2")}) == 3


def test_extended_resources_requested_by_a_container_count() -> None:
    resources = {"requests": {"nvidia.com/gpu": "2", "cpu": "100m", "memory": "nonsense"}}
    requested = requested_devices(device_pod("p", containers=[{"name": "main", "resources": resources}]))
    assert requested
    assert requested.info.running_containers["main"].kube_requests == {"nvidia.com/gpu": 2}


def test_plugins_see_the_extended_resources_of_pods_that_request_devices() -> None:
    resources = {"requests": {"larder.dev/port": "2", "cpu": "1", DEVICES_RESOURCE: "1"}}
    containers = [{"name": "main", "resources": resources}]
    assert not requested_devices(device_pod("p", containers=containers)), "any scheduler counts those"
    requested = requested_devices(device_pod("p", {CARD: 1}, containers=containers))
    assert requested.info.running_containers["main"].kube_requests == {"larder.dev/port": 2}
    assert requested.key != requested_devices(device_pod("p", {CARD: 1})).key


def test_a_sidecar_and_the_init_containers_after_it_use_their_devices_beside_the_running_containers() -> None:
    asks = {"requests": {CARD: 1}}
    asking = dict.fromkeys(("before", "sidecar", "after"), asks)
    text = json.dumps({"initcontainer": asking, "runningcontainer": {"main": asks}})
    init = [{"name": "quiet", "restartPolicy": "Always"}, {"name": "before"}]
    init += [{"name": "sidecar", "restartPolicy": "Always"}, {"name": "after"}]
    pod = device_pod("p", annotation=text, initContainers=init)
    info = requested_devices(pod).info
    assert set(info.running_containers) == {"main", "sidecar", "after"}
    assert set(info.init_containers) == {"before"}, "a sidecar without devices changes nothing"
    bound = device_pod("p", annotation=encode_pod_info(info), initContainers=init)
    assert requested_devices(bound).info == info, "they are read from where they were moved"


def test_a_request_for_a_container_that_the_pod_does_not_have_is_refused() -> None:
    with pytest.raises(InvalidDeviceInfo, match="no container 'other'"):
        requested_devices(
            device_pod("p", annotation=json.dumps({"runningcontainer": {"other": {"requests": {CARD: 1}}}}))
        )


def test_the_size_of_a_request_is_limited_but_not_that_of_an_allocation() -> None:
    text = json.dumps({"nodename": "n", "x": "y" * MAX_REQUEST_BYTES, "runningcontainer": {"main": {"requests": {}}}})
    for broken in ("", "{"):
        with pytest.raises(InvalidDeviceInfo, match="a pod may write 32768: shorten names"):
            requested_devices(device_pod("p", annotation=text + broken))
    assert requested_devices(device_pod("p", annotation=text, nodeName="n")).info.unknown
    assert allocated_devices(device_pod("p", annotation=text, nodeName="n")) is not None


def test_an_annotation_of_any_depth_is_read_or_refused() -> None:
    refused = 0
    for depth in range(1, 1000):
        text = f'{{"x": {"[" * depth}{"]" * depth}, "runningcontainer": {{"main": {{"requests": {{"{CARD}": 1}}}}}}}}'
        try:
            requested_devices(device_pod("p", annotation=text))
        except InvalidDeviceInfo:
            refused += 1
    assert 0 < refused < 500


def test_requests_by_topology_are_recognised() -> None:
    assert requested_devices(device_pod("p", {"gpu/gpu-generate-topology": 1})).follows_topology
    assert not requested_devices(device_pod("p", {CARD: 1})).follows_topology


def test_only_a_pod_on_the_node_of_its_annotation_has_devices() -> None:
    info = allocated_devices(bound_pod("p", "n", "a"))
    assert info is not None
    assert info.running_containers["main"].allocate_from == {CARD: card("a")}
    assert allocated_devices(bound_pod("p", "n", "a", phase="Succeeded")) is None
    assert allocated_devices(device_pod("p", annotation='{"nodename": "m"}', nodeName="n")) is None
    assert allocated_devices(device_pod("p", annotation="{", nodeName="n")) is None
    assert allocated_devices(device_pod("p", annotation='{"nodename": ""}')) is None
