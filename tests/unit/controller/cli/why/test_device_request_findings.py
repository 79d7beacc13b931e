"""Why a pod does not get the devices that it requests by annotation."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from controller.cli.why.findings import Diagnosis, Severity
from controller.cli.why.kinds import ObservedNode, ObservedPod, Workload
from controller.cli.why.observe_devices import DeviceObserver
from controller.cli.why.pods import why_pod
from controller.cli.why.view import ClusterView, DeviceScheduling, PodSurroundings
from controller.cli.why.workloads import ObservedWorkload, why_workload
from controller.devices.translation import CARDS
from shared.api.meta import Condition
from shared.devices.annotation import ANNOTATION
from shared.devices.scheduler import DEVICES_RESOURCE, NAMESPACE_LABEL
from shared.kube.errors import Refused
from shared.kube.objects import Object
from tests.builders.api_server import Objects, serving
from tests.builders.cluster import meta
from tests.builders.devices import CARD, card, node_json, pod_json
from tests.builders.why import reasons, seen

NAMESPACE, DEPLOYMENT = (
    "/api/v1/namespaces/default",
    "/apis/apps/v1/namespaces/larder-system/deployments/larder-scheduler",
)
OPEN: dict[str, Any] = {"metadata": {"name": "default", "labels": {NAMESPACE_LABEL: "true"}}}
RUNNING = {"metadata": {"name": "larder-scheduler"}, "status": {"readyReplicas": 1}}
MARKED = {"containers": [{"name": "main", "resources": {"requests": {DEVICES_RESOURCE: "1"}}}]}
ONE = {CARD: 1}


def pod(annotation: str | None = None, phase: str = "Pending", asks: Any = ONE, **spec: Any) -> ObservedPod:
    """A pod of our scheduler, as admitted, that requests one card or has this annotation."""
    body = pod_json("p", None if annotation is not None else asks, annotation, **(MARKED | spec))
    return msgspec.convert(body | {"status": {"phase": phase}}, ObservedPod)


def bound(*cards: str, **fields: Any) -> ObservedPod:
    got = {f"resource/group/gpu/{i}/cards": card(each) for i, each in enumerate(cards)}
    main = {"requests": dict.fromkeys(got, 1), "allocatefrom": got}
    text = json.dumps({"nodename": "n1", "runningcontainer": {"main": main}})
    return pod(text, **({"nodeName": "n1", "phase": "Running"} | fields))


def node(name: str, *cards: str, annotation: str | None = None, **status: Any) -> ObservedNode:
    body = node_json(name, {card(each): 1 for each in cards}, annotation)
    return msgspec.convert(body | {"status": status}, ObservedNode)


def around(namespace: Any = OPEN, scheduler: Any = RUNNING, hidden: tuple[str, ...] = ()) -> DeviceScheduling:
    deployment = msgspec.convert(scheduler, Workload) if scheduler else None
    return DeviceScheduling(msgspec.convert(namespace, Object), deployment, hidden)


def why(asks: ObservedPod, *nodes: ObservedNode, scheduling: DeviceScheduling | None = None, **view: Any) -> Diagnosis:
    cluster: ClusterView = replace(seen(nodes=nodes), **view)
    return why_pod(asks, cluster, PodSurroundings(scheduling=scheduling or around()))


def found(answer: Diagnosis, reason: str) -> str:
    """The finding with this reason: its severity, subject, message and remedy."""
    (finding,) = [f for f in answer.findings if f.reason == reason]
    return f"{finding.severity} {finding.about}: {finding.message}; {finding.remedy}"


def test_the_devices_of_a_pod_and_their_node_are_shown() -> None:
    answer = why(bound("a", "b"), node("n1", "a", "b"))
    assert found(answer, "Allocated") == f". devices: main ({card('a')}, {card('b')}) on node/n1; "
    assert reasons(answer, Severity.STOP) == set()


def test_many_devices_are_shown_in_part() -> None:
    assert found(why(bound(*"abcdefgh")), "Allocated").endswith(f"{card('e')} and 3 more) on node/n1; ")


def test_a_pod_that_has_ended_had_its_devices_until_then() -> None:
    assert "on node/n1 until it ended" in found(why(bound("a", phase="Failed")), "Allocated")


def test_a_pod_bound_by_something_other_than_our_scheduler_has_no_devices() -> None:
    answer = why(pod(nodeName="n1"), node("n1", "a"))
    assert found(answer, "NotAllocated").startswith("! devices: it was put on node/n1 without larder-scheduler")


@pytest.mark.parametrize("where", [{}, {"nodeName": "n1"}])
def test_a_pod_without_the_resource_that_admission_adds_is_placed_without_devices(where: dict[str, str]) -> None:
    answer = why(pod(containers=[{"name": "main"}], **where), node("n1", "a"))
    assert f"! devices: no container requests {DEVICES_RESOURCE}" in found(answer, "NotMarked")
    assert "NotAllocated" not in reasons(answer)


@pytest.mark.parametrize(
    ("annotation", "reason"),
    [
        ("{", "the text is not JSON"),
        ('{"runningcontainer": {"other": {"requests": {"a": 1}}}}', "the pod has no container 'other'"),
    ],
)
def test_an_annotation_that_cannot_be_read_is_quoted_with_the_reason(annotation: str, reason: str) -> None:
    answer = why(pod(annotation, schedulerName="default-scheduler"), node("n1", "a"))
    assert found(answer, "InvalidDeviceInfo").startswith(f"! devices: annotation {ANNOTATION} of the pod: {reason}")
    assert reasons(answer, Severity.STOP) == {"InvalidDeviceInfo"}


def test_another_scheduler_gives_no_devices() -> None:
    other = why(pod(schedulerName="volcano"), node("n1", "a"))
    assert "its schedulerName is volcano" in found(other, "OtherScheduler")
    assert "remove schedulerName" in found(other, "OtherScheduler")
    assert reasons(other, Severity.STOP) == {"OtherScheduler"}


def test_a_pod_that_admission_did_not_send_to_our_scheduler_is_to_be_created_again() -> None:
    missed = found(why(pod(schedulerName="default-scheduler")), "OtherScheduler")
    assert "admission did not send it to larder-scheduler" in missed
    assert "failurePolicy was Ignore" in missed
    assert "recreate the pod; check scheduler.enabled" in missed


def test_pods_of_larders_own_namespace_get_no_devices() -> None:
    asks = pod()
    inside = msgspec.structs.replace(asks, metadata=msgspec.structs.replace(asks.metadata, namespace="kube-system"))
    assert reasons(why(inside), Severity.STOP) == {"ExcludedNamespace"}


def test_a_namespace_without_the_label_is_named_with_the_command() -> None:
    closed = {"metadata": {"name": "default", "labels": {NAMESPACE_LABEL: "yes"}}}
    answer = why(pod(), node("n1", "a"), scheduling=around(closed))
    assert answer.summary == "namespace/default: NamespaceNotOpened"
    command = "kubectl label --overwrite namespace default larder.dev/device-scheduling=true"
    assert command in found(answer, "NamespaceNotOpened")


def test_a_scheduler_without_our_deployment_that_refused_the_pod_is_not_called_missing() -> None:
    refused = Condition(type="PodScheduled", status="False", reason="Unschedulable", last_transition_time="")
    waiting = pod()
    waiting = msgspec.structs.replace(waiting, status=msgspec.structs.replace(waiting.status, conditions=[refused]))
    answer = why(waiting, node("n1", "a"), scheduling=around(scheduler=None))
    assert found(answer, "NoScheduler").startswith(". scheduler: there is no Deployment larder-scheduler ")
    assert "but a scheduler has refused the pod" in found(answer, "NoScheduler")


def test_a_scheduler_that_is_missing_or_not_ready_is_reported() -> None:
    missing = why(pod(), node("n1", "a"), scheduling=around(scheduler=None))
    assert "; set scheduler.enabled in the chart" in found(missing, "NoScheduler")
    idle = why(pod(), node("n1", "a"), scheduling=around(scheduler=RUNNING | {"status": {}}))
    assert "larder why deploy/larder-system/larder-scheduler" in found(idle, "SchedulerNotReady")


def test_unreadable_objects_are_not_taken_for_missing() -> None:
    hidden = DeviceScheduling(hidden=("namespaces", "deployments"))
    answer = why(pod(), node("n1", "a"), scheduling=hidden, hidden={"nodes": Refused("no", 403)})
    assert reasons(answer, Severity.STOP) == set()
    assert [f.about for f in answer.findings if f.reason == "NotShown"] == ["scheduler", "nodes"]


def test_without_advertised_devices_the_switch_is_named() -> None:
    answer = why(pod(), node("n1", annotation=""), node("n2"))
    assert found(answer, "NoDevices") == (
        "! nodes: no node advertises devices; set devices.enabled in the chart; see docs/devices.md"
    )


def test_nodes_that_fit_the_pod_are_named() -> None:
    answer = why(pod(), node("n3", "a"), node("n1", "b"), node("n2", annotation=""), node("n0", "x", "y"))
    assert found(answer, "Fits").startswith(". nodes: ")
    assert found(answer, "Fits").endswith("used their devices: n0, n1, n3; ")
    assert reasons(answer, Severity.STOP) == set()


def test_cards_of_the_nodes_status_count() -> None:
    answer = why(pod(), node("n1", annotation="", allocatable={"nvidia.com/gpu": "2"}), node("n2", "x"))
    assert found(answer, "Fits").endswith("used their devices: n1, n2; ")


def test_cards_in_the_resources_of_a_container_count_only_for_pods_of_our_scheduler() -> None:
    cards = {"requests": {"nvidia.com/gpu": "2", DEVICES_RESOURCE: "1"}, "limits": {"nvidia.com/gpu": "2"}}
    containers = [{"name": "main", "resources": cards}]
    ours, other = pod("{}", containers=containers), pod("{}", containers=containers, schedulerName="default-scheduler")
    assert "requested 2, used 0, capacity 1" in found(why(ours, node("n1", "a")), "NoNodeFits")
    assert reasons(why(other, node("n1", "a")), Severity.STOP) == {"AsksForNoModel"}


def test_the_missing_devices_of_the_closest_nodes_are_named_if_no_node_fits_the_pod() -> None:
    two = pod(asks={"resource/group/gpu/0/cards": 1, "resource/group/gpu/1/cards": 1})
    nodes = [node(f"n{i}", "a") for i in range(3)]
    tpu = json.dumps({"allocatable": {"resource/group/tpu/a/chips": 1}})
    answer = why(two, *nodes, node("m", annotation=tpu))
    text = found(answer, "NoNodeFits")
    assert text.startswith(
        "! nodes: no node could hold the pod, even if no other pod used devices (4 of 4 checked): n0 and 2 more"
    )
    assert "container main: resource/group/gpu/1/cards: requested 1, used 1, capacity 1; m: container main" in text


def test_a_node_whose_allocation_could_not_be_written_to_the_pod_is_not_said_to_hold_it() -> None:
    answer = why(pod(asks={CARDS: 1} | {f"x{i}": 1 for i in range(255)}), node("n", "a"))
    assert "n: its allocation could not be written to the pod: " in found(answer, "NoNodeFits")


def test_a_node_that_cannot_be_read_is_left_out_and_named() -> None:
    broken = node("bad", annotation='{"allocatable": []}')
    good = why(pod(), broken, node("n1", "a"))
    assert found(good, "InvalidDeviceInfo").startswith(". nodes: the devices of bad do not count: annotation")
    assert found(good, "Fits").endswith(": n1; ")
    assert reasons(why(pod(), broken), Severity.STOP) == {"InvalidDeviceInfo", "NoDevices"}


def test_a_pod_with_many_requests_is_tried_on_fewer_kinds_of_nodes() -> None:
    many = {"runningcontainer": {f"c{c}": {"requests": {CARDS: 99}} for c in range(60)}}
    asks = pod(json.dumps(many), containers=[{"name": name} for name in many["runningcontainer"]])
    nodes = [node(f"n{n}", annotation=json.dumps({"allocatable": {card("a"): 1, f"x{n}": 1}})) for n in range(100)]
    assert "(33 of 100 checked)" in found(why(asks, *nodes), "NoNodeFits")
    assert "(100 of 100 checked)" in found(why(asks, *[node(f"n{n}", "a") for n in range(100)]), "NoNodeFits")


def test_the_text_is_bounded_by_the_steps_and_names_of_a_hostile_pod() -> None:
    leaf = "d" * 400
    wide = {f"resource/group/a/{x}/b/{y}/c/{z}/{leaf}": 1 for x in range(8) for y in range(8) for z in range(8)}
    asks = pod(asks={f"resource/group/a/{x}/b/{y}/c/0/{leaf}": 2 for x in range(8) for y in range(8)})
    answer = why(asks, *[node(f"n{n}", annotation=json.dumps({"allocatable": wide | {f"x{n}": 1}})) for n in range(5)])
    assert len(found(answer, "NoNodeFits")) < 1000


@pytest.mark.parametrize("asks", [pod(), pod("{"), pod(schedulerName="volcano"), bound("a")])
def test_the_missing_model_annotation_is_not_reported_for_a_pod_that_requests_devices(asks: ObservedPod) -> None:
    assert "AsksForNoModel" not in {f.reason for f in why(asks, node("n1", "a")).findings}


def test_the_missing_model_annotation_is_not_reported_for_a_template_that_requests_devices() -> None:
    template = {"metadata": {"annotations": {ANNOTATION: "{}"}}}
    body = {"metadata": {"name": "web", "namespace": "team"}, "spec": {"template": template, "replicas": 0}}
    of_devices = ObservedWorkload("Deployment", msgspec.convert(body, Workload))
    assert "AsksForNoModel" not in {f.reason for f in why_workload(of_devices, seen()).findings}
    misplaced = {"metadata": {"name": "web", "namespace": "team", "annotations": {ANNOTATION: "{}"}}}
    wrong = ObservedWorkload("Deployment", msgspec.convert(misplaced, Workload))
    assert "AnnotationMisplaced" in reasons(why_workload(wrong, seen()), Severity.STOP)


def test_a_foreign_scheduling_gate_is_named() -> None:
    gated = why(pod(schedulingGates=[{"name": "kueue.x-k8s.io/admission"}]), node("n1", "a"))
    assert "the scheduling gate kueue.x-k8s.io/admission is not Larder's" in found(gated, "OtherGate")


async def test_the_namespace_and_the_deployment_are_read_only_for_pods_that_wait_for_devices(tmp_path: Path) -> None:
    objects = Objects({NAMESPACE: OPEN})
    plain = ObservedPod(metadata=meta("plain", namespace="default"))
    async with serving(objects, tmp_path) as kube:
        observer = DeviceObserver(kube, "larder-system")
        for asks in (plain, bound("a"), pod("{"), pod(schedulerName="volcano"), pod(phase="Failed")):
            assert await observer.scheduling(asks) is None
        assert objects.asked == []
        read = await observer.scheduling(pod())
    assert read is not None
    assert read.namespace is not None
    assert read.namespace.metadata.labels == {NAMESPACE_LABEL: "true"}
    assert (read.scheduler, read.hidden) == (None, ())
    assert objects.asked == [f"GET {NAMESPACE}", f"GET {DEPLOYMENT}"]


async def test_objects_that_this_user_may_not_read_are_noted(tmp_path: Path) -> None:
    objects = Objects()
    objects.refused = {NAMESPACE: 403, DEPLOYMENT: 403}
    async with serving(objects, tmp_path) as kube:
        read = await DeviceObserver(kube, "larder-system").scheduling(pod())
    assert read == DeviceScheduling(hidden=("namespaces", "deployments"))
