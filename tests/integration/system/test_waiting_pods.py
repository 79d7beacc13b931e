"""Pods that wait for their model: gates, progress, pods that must not wait, and what goes wrong meanwhile."""

import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from rig.errors import CallRefused
from rig.fake_nodes.decide import NEVER_STARTS
from rig.hub.faults import Stall
from rig.larder.objects import path_of
from rig.larder.site import Site
from rig.pods import BASE_MODEL, plain_pod
from rig.ports import LOOPBACK
from shared.json_object import Json
from shared.names import snapshot_label
from tests.integration.system.unguarded import delete_unguarded
from tests.readers.metrics import scrape

KIND = "ClusterBaseModel"
GATE, HELD = "larder.dev/model", "rig/held"
GPU = {"gpu": "yes"}
_PODS = "/api/v1/namespaces/default/pods"


@dataclass
class Arrival:
    """A model whose download stalls halfway until the test lets it continue."""

    name: str
    revision: str
    come: Callable[[], None]


@pytest.fixture
def stalled(site: Site) -> Iterator[Arrival]:
    content = os.urandom(3_000_000)
    site.hub.faults.add(Stall(100_000), f"*{hashlib.sha256(content).hexdigest()}")
    name = site.base_model(site.push(files={"config.json": b"{}", "model.safetensors": content}), nodeSelector=GPU)
    site.until(lambda: bool(site.status(KIND, name).get("servingRevision")), "the model to be resolved")
    yield Arrival(name, site.status(KIND, name)["servingRevision"], site.hub.faults.clear)
    site.hub.faults.clear()


def body(
    site: Site, model: str, placement: str, *, starts: bool = True, gates: tuple[str, ...] = (), **asks: str
) -> Json:
    annotations = {BASE_MODEL: model, "larder.dev/placement": placement} | ({} if starts else {NEVER_STARTS: ""})
    annotations |= {f"larder.dev/{key.replace('_', '-')}": value for key, value in asks.items()}
    pod = plain_pod(site.name("pod"), annotations)
    if gates:
        pod["spec"]["schedulingGates"] = [{"name": gate} for gate in gates]
    return pod


def run(site: Site, model: str, placement: str, **fields: Any) -> str:
    """Create a pod, and return its name."""
    name: str = site.pod(body(site, model, placement, **fields), behind="ModelNotReady")["metadata"]["name"]
    return name


def gates(site: Site, pod: str) -> list[str]:
    return [g["name"] for g in site.api.get(f"{_PODS}/{pod}")["spec"].get("schedulingGates", [])]


def is_reported(site: Site, name: str, reason: str, phrase: str) -> bool:
    """Return whether one of the Events with this reason says so: there may be several, in no order."""
    return any(phrase in event["message"] for event in site.events(name) if event["reason"] == reason)


def is_placed(pod: Json) -> bool:
    return bool(pod["spec"].get("nodeName")) and pod["status"].get("phase") == "Pending"


def awaited(site: Site, node: str, model: str) -> list[bool]:
    return [bool(e.get("awaited")) for e in site.entries(node, model)]


def test_gates_are_removed_once_a_node_has_the_files_although_the_leader_was_killed(
    site: Site, stalled: Arrival
) -> None:
    pods = [run(site, stalled.name, "gated") for _ in range(60)]
    other = run(site, stalled.name, "gated", gates=(HELD,))
    assert gates(site, pods[0]) == [GATE]
    assert set(gates(site, other)) == {HELD, GATE}
    site.until(lambda: "WaitingForModel" in site.reasons(pods[0]), "the Event on the oldest pod")
    samples: dict[str, float] = {}

    def all_counted() -> bool:
        samples.update(scrape(f"http://{LOOPBACK}:{site.leader().health_port}"))
        return samples.get('larder_waiting_pods{placement="gated"}') == 61

    site.until(all_counted, "all pods to be counted")
    assert samples['larder_waiting_pods_oldest_seconds{placement="gated"}'] > 0
    killed = site.leader()
    killed.process.kill()
    stalled.come()
    killed.start()
    site.cluster.aim_webhooks(site.cluster.controllers[0])
    site.until(lambda: not any(gates(site, pod) for pod in pods), "all gates to be gone")
    site.until(lambda: gates(site, other) == [HELD], "the gate of somebody else to stay")
    site.until(lambda: all(site.pod_node(pod) in ("a", "b") for pod in pods), "all to be scheduled")
    for pod in (*pods, other):
        site.delete_pod(pod)


def test_a_pod_on_a_node_without_the_files_gets_events_about_their_progress(site: Site, stalled: Arrival) -> None:
    pod = run(site, stalled.name, "preferred", starts=False)
    site.until(lambda: bool(site.pod_node(pod)), "the pod to be placed")
    node = site.pod_node(pod)
    site.until(lambda: awaited(site, node, stalled.name) == [True], "its node to know")
    assert awaited(site, "b" if node == "a" else "a", stalled.name) == [False]
    site.until(lambda: "WaitingForModel" in site.reasons(pod), "the Event on the pod")
    assert is_reported(site, pod, "WaitingForModel", f"node {node} does not have model {stalled.name}@")
    with site.cluster.nodes.lost(node):
        site.until(lambda: is_reported(site, pod, "ModelDelayed", "not Ready"), "the lost node to be named")
    stalled.come()
    site.until(lambda: "ModelOnNode" in site.reasons(pod), "the last Event on the pod")
    site.until(lambda: awaited(site, node, stalled.name) == [False], "its node to be free again")
    site.delete_pod(pod)


def test_a_pod_that_was_only_reported_as_delayed_is_told_when_the_files_are_there(site: Site, stalled: Arrival) -> None:
    site.cluster.nodes.add("bare")  # without an agent, and not selected by the model
    made = body(site, stalled.name, "preferred", starts=False)
    made["spec"]["nodeName"] = "bare"
    pod = site.pod(made)["metadata"]["name"]
    site.until(lambda: is_reported(site, pod, "ModelDelayed", "does not select this node"), "the obstacle")
    site.label("bare", {snapshot_label(stalled.name, stalled.revision): "true"})
    site.until(lambda: "ModelOnNode" in site.reasons(pod), "the last Event on the pod")
    assert "WaitingForModel" not in site.reasons(pod)
    site.delete_pod(pod)
    site.cluster.nodes.remove("bare")


def test_a_pod_that_must_not_wait_fails_and_its_job_creates_others_until_one_runs(site: Site, stalled: Arrival) -> None:
    template = body(site, stalled.name, "preferred", starts=False, on_missing="fail")
    template["spec"]["restartPolicy"] = "Never"
    del template["metadata"]["name"]
    ignored = {"action": "Ignore", "onPodConditions": [{"type": "larder.dev/ModelMissing"}]}
    jobs, name = "/apis/batch/v1/namespaces/default/jobs", site.name("job")
    spec = {"backoffLimit": 0, "podFailurePolicy": {"rules": [ignored]}, "template": template}
    site.api.create(jobs, {"metadata": {"name": name}, "spec": spec})

    def pods() -> list[Json]:
        found: list[Json] = site.api.get(f"{_PODS}?labelSelector=job-name={name}")["items"]
        return found

    site.until(lambda: any(p["status"].get("phase") == "Failed" for p in pods()), "the first pod to end")
    ended = next(p for p in pods() if p["status"].get("phase") == "Failed")
    conditions = {c["type"]: c["status"] for c in ended["status"]["conditions"]}
    assert (ended["status"]["reason"], conditions["larder.dev/ModelMissing"]) == ("ModelMissing", "True")
    site.until(lambda: "ModelMissing" in site.reasons(ended["metadata"]["name"]), "the event on the first pod")
    stalled.come()
    site.wait_ready(KIND, stalled.name)
    site.until(lambda: any(is_placed(pod) for pod in pods()), "another pod to be placed and to stay")
    job = site.api.get(f"{jobs}/{name}")["status"]
    assert not [c for c in job.get("conditions", []) if c["type"] == "Failed"]
    site.api.delete(f"{jobs}/{name}?propagationPolicy=Background")
    for pod in pods():
        site.delete_pod(pod["metadata"]["name"])


def test_a_pod_without_the_annotation_or_that_runs_is_never_ended(site: Site, stalled: Arrival) -> None:
    waits = run(site, stalled.name, "preferred", starts=False)
    runs = run(site, stalled.name, "preferred", on_missing="wait")
    site.until(lambda: site.api.get(f"{_PODS}/{runs}")["status"].get("phase") == "Running", "the pod to run")
    site.api.patch(f"{_PODS}/{runs}", {"metadata": {"annotations": {"larder.dev/on-missing": "fail"}}})
    ends = run(site, stalled.name, "preferred", starts=False, on_missing="fail")
    site.until(lambda: site.api.get(f"{_PODS}/{ends}")["status"].get("phase") == "Failed", "a later pod to end")
    assert site.api.get(f"{_PODS}/{runs}")["status"]["phase"] == "Running"
    assert site.api.get(f"{_PODS}/{waits}")["status"]["phase"] == "Pending"
    for pod in (waits, runs, ends):
        site.delete_pod(pod)


def refreshed(site: Site, name: str, uri: str, weights: bytes = b"") -> None:
    files = {"config.json": os.urandom(100)} | ({"model.safetensors": weights} if weights else {})
    site.push(files=files, repo=uri.removeprefix("hf://"))
    site.api.patch(path_of(KIND, name), {"metadata": {"annotations": {"larder.dev/refresh": "one"}}})


def test_an_unscheduled_pod_keeps_its_revision_on_the_nodes_after_an_update(site: Site) -> None:
    uris = [site.push(files={"config.json": os.urandom(100)}) for _ in range(2)]
    kept, gone = (site.base_model(uri, nodeSelector=GPU) for uri in uris)
    old = {name: site.wait_ready(KIND, name)["servingRevision"] for name in (kept, gone)}
    site.until(lambda: all(site.status(KIND, n)["ready"] == "2/2" for n in (kept, gone)), "both nodes to have them")
    pod = run(site, kept, "required", gates=(HELD,))
    for name, uri in zip((kept, gone), uris, strict=True):
        refreshed(site, name, uri)
    for name in (kept, gone):
        site.until(lambda n=name: site.status(KIND, n)["servingRevision"] != old[n], "the flip")  # type: ignore[misc]
    site.until(lambda: not any(site.snapshot(n, gone, old[gone]).exists() for n in "ab"), "the unused one to be gone")
    assert all(site.snapshot(n, kept, old[kept]).exists() for n in "ab")
    assert {e.get("state", "Present") for n in "ab" for e in site.entries(n, kept)} == {"Present"}
    site.api.patch(f"{_PODS}/{pod}", {"spec": {"schedulingGates": None}})
    site.until(lambda: site.pod_node(pod) in ("a", "b"), "the pod to be scheduled with its revision")
    site.delete_pod(pod)


def test_a_node_added_during_an_update_downloads_the_old_revision_for_its_pod(site: Site) -> None:
    uri, weights = site.push(files={"config.json": os.urandom(100)}), os.urandom(3_000_000)
    name = site.base_model(uri, nodeSelector={"during": "update"})
    site.label("a", {"during": "update"})
    old = site.wait_ready(KIND, name)["servingRevision"]
    site.hub.faults.add(Stall(100_000), f"*{hashlib.sha256(weights).hexdigest()}")
    refreshed(site, name, uri, weights)
    site.until(lambda: len(site.entries("a", name)) == 2, "the new revision to be listed beside the old one")
    site.label("c", {"during": "update"})
    site.until(lambda: len(site.entries("c", name)) == 1, "the new node to list the new revision alone")
    made = body(site, name, "preferred", starts=False)
    made["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "c"}
    pod = site.pod(made)["metadata"]["name"]
    site.until(lambda: site.snapshot("c", name, old).exists(), "the old revision to be downloaded for the pod")
    assert site.pod_node(pod) == "c"
    site.delete_pod(pod)
    site.hub.faults.clear()
    site.wait_ready(KIND, name)


def test_a_deleted_model_is_kept_for_a_waiting_pod_and_a_forced_removal_is_reported(
    site: Site, stalled: Arrival
) -> None:
    pod = run(site, stalled.name, "preferred", starts=False)
    site.until(lambda: bool(site.pod_node(pod)), "the pod to be placed")
    node = site.pod_node(pod)
    site.until(lambda: awaited(site, node, stalled.name) == [True], "its node to know")
    delete_unguarded(site, KIND, stalled.name)
    assert f"pod default/{pod}" in site.wait_reason(KIND, stalled.name, "InUse")
    assert awaited(site, node, stalled.name) == [True]
    site.api.patch(path_of(KIND, stalled.name), {"metadata": {"finalizers": None}})
    site.until(lambda: "ModelRemoved" in site.reasons(pod), "the Event about the lost model on the pod")
    site.delete_pod(pod)


def test_a_missing_model_or_revision_is_reported_on_the_pod_and_its_owner(site: Site) -> None:
    model = site.base_model(nodeSelector=GPU)
    site.wait_ready(KIND, model)
    sets, web = "/apis/apps/v1/namespaces/default/replicasets", site.name("web")
    template = body(site, model, "required", gates=(HELD,))
    template["metadata"] = {"labels": {"app": web}, "annotations": template["metadata"]["annotations"]}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": web}}, "template": template}
    site.api.create(sets, {"metadata": {"name": web}, "spec": spec})
    selected = f"{_PODS}?labelSelector=app={web}"
    site.until(lambda: bool(site.api.get(selected)["items"]), "the pod")
    pod = site.api.get(selected)["items"][0]["metadata"]["name"]
    for reason, snapshot in (("ModelRevisionGone", f"{model}@{'0' * 40}"), ("ModelRemoved", "never-declared@r1")):
        site.api.patch(f"{_PODS}/{pod}", {"metadata": {"annotations": {"larder.dev/models": snapshot}}})
        site.until(lambda r=reason: r in site.reasons(pod), "the Event on the pod")  # type: ignore[misc]
        site.until(lambda r=reason: r in site.reasons(web), "the Event on its owner")  # type: ignore[misc]
    site.api.delete(f"{sets}/{web}")
    site.until(lambda: not site.api.get(selected)["items"], "the pod to be gone")


def test_gates_and_annotations_forged_by_a_tenant_have_no_effect(site: Site) -> None:
    forged = plain_pod(site.name("forged"))
    forged["spec"]["schedulingGates"] = [{"name": GATE}, {"name": HELD}]
    name = forged["metadata"]["name"]
    site.api.create(_PODS, forged)
    marks = {
        "labels": {"model.larder.dev/any": "true"},
        "annotations": {"larder.dev/models": "team-b_secret@0123", "larder.dev/placement": "preferred"},
    }
    site.api.patch(f"{_PODS}/{name}", {"metadata": marks})
    site.until(lambda: gates(site, name) == [HELD], "a gate with nothing behind it to be gone")
    assert site.reasons(name) == {}
    assert not any(site.entries(node, "team-b_secret") for node in ("a", "b", "c"))
    site.delete_pod(name)
    with pytest.raises(CallRefused):
        site.api.create(_PODS, body(site, "team-b_secret", "gated"))
