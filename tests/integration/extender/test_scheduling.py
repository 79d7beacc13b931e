"""A real kube-scheduler with the extender: pods get devices, or wait with a reason."""

import json
from collections import Counter
from collections.abc import Callable
from functools import partial

from rig.errors import CallRefused
from rig.held_link import HeldLink
from rig.larder.site import Site
from rig.pods import plain_pod
from rig.ports import LOOPBACK
from shared.devices.annotation import ANNOTATION
from shared.devices.scheduler import DEVICES_RESOURCE, SCHEDULER_NAME
from tests.builders.devices import CARD, card
from tests.integration.extender.asking_pods import asking, is_bound
from tests.readers.metrics import scrape

AddNode = Callable[..., str]
_PODS = "/api/v1/namespaces/default/pods"
_PLAIN = {"plain": "yes"}


def cards_of(site: Site, *names: str) -> Counter[tuple[str, str]]:
    """Return how often each card of each node was allocated to these pods."""
    found: Counter[tuple[str, str]] = Counter()
    for name in names:
        pod = site.api.get(f"{_PODS}/{name}")
        info = json.loads(pod["metadata"]["annotations"][ANNOTATION])
        assert info["nodename"] == pod["spec"]["nodeName"]
        for place in info["runningcontainer"]["main"]["allocatefrom"].values():
            found[info["nodename"], place] += 1
    return found


def unscheduled(site: Site, name: str, reason: str = "Unschedulable") -> str:
    """Return the scheduler's message for a pod that it could not place; empty while it retries by itself."""
    conditions = site.api.get(f"{_PODS}/{name}")["status"].get("conditions", [])
    return " ".join(c.get("message", "") for c in conditions if c["type"] == "PodScheduled" and c["reason"] == reason)


def filter_answers(site: Site) -> float:
    """Return how often the replica that the scheduler asks has answered filter."""
    samples = scrape(f"http://{LOOPBACK}:{site.cluster.controllers[0].health_port}")
    return sum(
        value
        for name, value in samples.items()
        if name.startswith("larder_extender_duration_seconds_count") and 'verb="filter"' in name
    )


def test_a_pod_with_the_annotation_is_bound_with_its_device(site: Site, add_node: AddNode) -> None:
    add_node({})
    node = add_node({card("a"): 1})
    name = asking(site)
    pod = site.api.get(f"{_PODS}/{name}")
    assert pod["spec"]["schedulerName"] == SCHEDULER_NAME
    assert pod["spec"]["containers"][0]["resources"]["limits"] == {DEVICES_RESOURCE: "1"}
    site.until(lambda: is_bound(site, name), "the pod to be bound")
    assert cards_of(site, name) == {(node, card("a")): 1}


def test_the_pod_of_kubedevices_readme_gets_two_cards_of_one_group(site: Site, add_node: AddNode) -> None:
    """The manifest of the README, with the annotation as a string, which Kubernetes requires."""
    node = add_node({f"resource/group/gpugrp1/0/gpugrp0/{i // 2}/gpu/{i}/cards": 1 for i in range(4)})
    cards = {"capacity": {"nvidia.com/gpu": "4"}, "allocatable": {"nvidia.com/gpu": "4"}}
    site.api.patch(f"/api/v1/nodes/{node}/status", {"status": cards})
    asks = '{"runningcontainer":{"tfcont":{"requests":{"gpu/gpu-generate-topology":1}}}}'
    pod = plain_pod("tfpod", {ANNOTATION: asks}, "tfcont")
    resources = {"requests": {"cpu": 1}, "limits": {"nvidia.com/gpu": 2}}
    pod["spec"]["containers"][0] |= {"image": "tensorflow/tensorflow:latest-py3-jupyter", "resources": resources}
    site.api.create(_PODS, pod)
    site.until(lambda: site.pod_node("tfpod") == node, "the pod to be bound")
    info = json.loads(site.api.get(f"{_PODS}/tfpod")["metadata"]["annotations"][ANNOTATION])
    places = info["runningcontainer"]["tfcont"]["allocatefrom"].values()
    assert len(set(places)) == 2
    assert len({place.partition("/gpu/")[0] for place in places}) == 1


def test_the_only_node_with_devices_is_found_among_200_at_the_first_attempt(site: Site, add_node: AddNode) -> None:
    for index in range(200):  # if the scheduler looked only at a sample, it would refuse half of the pods at first
        site.api.create("/api/v1/nodes", {"metadata": {"name": f"plain-{index}", "labels": _PLAIN}})
        site.api.patch(f"/api/v1/nodes/plain-{index}/status", {"status": {"allocatable": {"cpu": "8", "pods": "110"}}})
    try:
        node = add_node({card(str(index)): 1 for index in range(9)})
        site.until(lambda: not site.api.get(f"/api/v1/nodes/{node}")["spec"].get("taints"), "the node to be ready")
        anywhere = [{"operator": "Exists"}]  # nobody keeps the plain nodes ready
        first = asking(site, tolerations=anywhere)
        site.until(lambda: is_bound(site, first), "scheduler and extender to know the node")
        for _ in range(8):
            pod = asking(site, tolerations=anywhere)
            site.until(partial(is_bound, site, pod), "the pod to be bound")
            assert site.pod_node(pod) == node
            assert "FailedScheduling" not in site.reasons(pod)
    finally:
        site.api.call("DELETE", "/api/v1/nodes?labelSelector=plain%3Dyes")


def test_events_report_missing_devices_and_a_released_device_is_used(site: Site, add_node: AddNode) -> None:
    add_node({card("a"): 1})
    first = asking(site)
    site.until(lambda: is_bound(site, first), "the first pod to be bound")
    second = asking(site)
    lacks = f"container main: {CARD}: requested 1, used 1, capacity 1"
    site.until(lambda: lacks in unscheduled(site, second), "the reason")
    site.until(lambda: any(lacks in event["message"] for event in site.events(second)), "the event")
    site.delete_pod(first)
    site.until(lambda: is_bound(site, second), "the second pod to be bound")


def test_a_finished_pod_releases_its_devices(site: Site, add_node: AddNode) -> None:
    add_node({card("a"): 1})
    first = asking(site)
    path = f"{_PODS}/{first}"
    # otherwise the rig would set it to Running after this test has ended it
    site.until(lambda: site.api.get(path)["status"].get("phase") == "Running", "the first pod to run")
    site.api.patch(f"{path}/status", {"status": {"phase": "Succeeded"}})
    second = asking(site)
    site.until(lambda: is_bound(site, second), "the second pod to be bound")


def test_a_request_larger_than_any_node_is_reported_with_the_capacity(site: Site, add_node: AddNode) -> None:
    add_node({card("a"): 1})
    pod = plain_pod(site.name("pod"), {ANNOTATION: json.dumps({"runningcontainer": {"main": {"requests": {CARD: 9}}}})})
    name = site.api.create(_PODS, pod)["metadata"]["name"]
    site.until(lambda: f"container main: {CARD}: requested 9, used 0, capacity 1" in unscheduled(site, name), "it")


def test_many_concurrent_pods_never_share_a_device(site: Site, add_node: AddNode) -> None:
    for _ in range(4):
        add_node({card(str(i)): 1 for i in range(4)})
    names = [asking(site) for _ in range(20)]
    site.until(lambda: sum(bool(site.pod_node(name)) for name in names) == 16, "sixteen pods to be bound")
    bound = [name for name in names if site.pod_node(name)]
    assert set(cards_of(site, *bound).values()) == {1}
    waiting = [name for name in names if name not in bound]
    for name in waiting:
        site.until(lambda name=name: "used 1" in unscheduled(site, name), "the others to be refused")  # type: ignore[misc]
    for name in bound[:4]:
        site.delete_pod(name)
    site.until(lambda: is_bound(site, *waiting), "the others to be bound")
    assert set(cards_of(site, *bound[4:], *waiting).values()) == {1}


def test_an_added_or_changed_node_wakes_waiting_pods(site: Site, add_node: AddNode) -> None:
    node = add_node({})
    name = asking(site, 2)
    site.until(lambda: "capacity 0" in unscheduled(site, name), "the pod to wait")
    text = json.dumps({"allocatable": {card("a"): 1, card("b"): 1}})
    site.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"annotations": {ANNOTATION: text}}})
    site.until(lambda: is_bound(site, name), "the pod to be bound")
    assert cards_of(site, name) == {(node, card("a")): 1, (node, card("b")): 1}


def test_a_pod_refused_by_a_stale_replica_is_retried_without_another_change(
    site: Site, add_node: AddNode, link: HeldLink
) -> None:
    """The scheduler sees the change at once and calls the replica, which has not seen it yet."""
    node = add_node({})
    name = asking(site)
    site.until(lambda: "capacity 0" in unscheduled(site, name), "the pod to wait")
    path = f"/api/v1/nodes/{node}"
    with link.held():
        for change in ({ANNOTATION: json.dumps({"allocatable": {card("a"): 1}})}, {"another": "change"}):
            asked = filter_answers(site)
            site.api.patch(path, {"metadata": {"annotations": change}})
            site.until(lambda asked=asked: filter_answers(site) > asked, "the scheduler to ask")  # type: ignore[misc]
        assert not is_bound(site, name)
    site.until(lambda: is_bound(site, name), "the pod to be bound", within_s=60)


def test_a_malformed_node_is_reported_and_others_are_not_affected(site: Site, add_node: AddNode) -> None:
    bad, good = add_node(annotation='{"allocatable": {"resource/group/gpu/a/cards": "many"}}'), add_node({card("a"): 1})
    name = asking(site)
    site.until(lambda: site.pod_node(name) == good, "the pod to be bound")
    site.until(lambda: any(e["reason"] == "InvalidDeviceInfo" for e in site.events(bad)), "an event on the node")
    second = asking(site)
    site.until(lambda: "annotation KubeDevice/DeviceInfo of the node" in unscheduled(site, second), "the reason")


def test_a_malformed_pod_is_refused(site: Site) -> None:
    pod = plain_pod(site.name("pod"), {ANNOTATION: '{"runningcontainer": {"other": {"requests": {"a": 1}}}}'})
    try:
        site.api.create(_PODS, pod)
    except CallRefused as refused:
        assert "the pod has no container 'other'" in str(refused)  # noqa: PT017 - whatever else is raised fails the test
    else:
        raise AssertionError("the pod was admitted")


def test_pods_of_a_namespace_that_is_not_enabled_wait_with_an_explanation(site: Site, add_node: AddNode) -> None:
    add_node({card("a"): 1})
    namespace = site.name("closed")
    site.api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    site.until(lambda: site.api.answers(f"/api/v1/namespaces/{namespace}/serviceaccounts/default"), "the account")
    name = asking(site, namespace=namespace)
    events = f"/api/v1/namespaces/{namespace}/events"
    how = f"kubectl label namespace {namespace} larder.dev/device-scheduling=true"
    site.until(lambda: any(how in event["message"] for event in site.api.get(events)["items"]), "the event")
    site.api.patch(
        f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": {"larder.dev/device-scheduling": "true"}}}
    )
    path = f"/api/v1/namespaces/{namespace}/pods/{name}"
    site.until(lambda: bool(site.api.get(path)["spec"].get("nodeName")), "the pod to be bound")
    site.api.delete(path, grace_s=0)
    site.api.delete(f"/api/v1/namespaces/{namespace}")


def test_without_the_extender_only_pods_that_request_devices_wait(site: Site, add_node: AddNode) -> None:
    """A restarted replica knows the devices of running pods."""
    controller = site.cluster.controllers[0]
    add_node({card("a"): 1, card("b"): 1})
    first = asking(site)
    site.until(lambda: is_bound(site, first), "the first pod to be bound")
    site.cluster.aim_webhooks(site.cluster.controllers[1])
    controller.process.kill()
    second, third, plain = asking(site), asking(site), site.name("plain")
    site.api.create(_PODS, plain_pod(plain))
    site.until(lambda: is_bound(site, plain), "the plain pod to be bound")
    site.until(lambda: "connection refused" in unscheduled(site, second, "SchedulerError"), "the reason")
    assert not site.pod_node(second)
    controller.start()
    site.until(lambda: sum(is_bound(site, name) for name in (second, third)) == 1, "one of the pods to be bound")
    late = second if is_bound(site, second) else third
    assert set(cards_of(site, first, late).values()) == {1}
    waits = third if late == second else second
    site.until(lambda: "used 1, capacity 1" in unscheduled(site, waits), "the other to learn why it waits")
    site.cluster.aim_webhooks(controller)
