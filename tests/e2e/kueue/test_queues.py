"""Jobs and pods of Kueue's queues run on nodes with their model, with every kind of placement."""

from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from rig.larder.site import Site
from shared.json_object import Json
from shared.names import ready_label

EXAMPLE = Path(__file__).parents[3] / "examples" / "autoscaling" / "kueue.yaml"
QUEUE = "kueue.x-k8s.io/queue-name"
ADMISSION, GATE = "kueue.x-k8s.io/admission", "larder.dev/model"
KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
QUEUES = f"{KUEUE}/namespaces/default/localqueues"
WORKLOADS = f"{KUEUE}/namespaces/default/workloads"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
PODS = "/api/v1/namespaces/default/pods"


def objects() -> tuple[Json, Json, Json, Json]:
    """Return flavor, cluster queue, queue and Job of the example."""
    flavor, cluster_queue, queue, job = yaml.safe_load_all(EXAMPLE.read_text())
    return flavor, cluster_queue, queue, job


def add_queue(site: Site, *flavors: Mapping[str, str]) -> str:
    """Create the queue of the example with flavors of these node labels, and return the name of its objects."""
    name = site.name("queue")
    flavor, cluster_queue, queue, _ = objects()
    (offered,) = cluster_queue["spec"]["resourceGroups"][0]["flavors"]
    cluster_queue["spec"]["resourceGroups"][0]["flavors"] = []
    for number, labels in enumerate(flavors):
        chosen = f"{name}-{number}"
        site.api.create(
            f"{KUEUE}/resourceflavors", flavor | {"metadata": {"name": chosen}, "spec": {"nodeLabels": dict(labels)}}
        )
        cluster_queue["spec"]["resourceGroups"][0]["flavors"].append(offered | {"name": chosen})
    site.api.create(f"{KUEUE}/clusterqueues", cluster_queue | {"metadata": {"name": name}})
    site.api.create(QUEUES, queue | {"metadata": {"name": name}, "spec": {"clusterQueue": name}})
    return name


def add_job(site: Site, queue: str, model: str, placement: str, selector: Mapping[str, str] | None = None) -> str:
    """Create the Job of the example in a queue, and return its name."""
    *_, job = objects()
    name = site.name("job")
    job["metadata"] = {"name": name, "labels": {QUEUE: queue}}
    job["spec"]["template"]["metadata"]["annotations"] = {GATE: model, "larder.dev/placement": placement}
    job["spec"]["template"]["spec"]["nodeSelector"] = dict(selector or {})
    site.api.create(JOBS, job)
    return name


def pods_of(site: Site, job: str) -> list[Json]:
    found: list[Json] = site.api.get(f"{PODS}?labelSelector=job-name={job}")["items"]
    return found


def flavors_of(site: Site, owner: str) -> list[str]:
    """Return the flavors with which Kueue admitted a Job; empty before admission."""
    return [
        chosen
        for workload in site.api.get(WORKLOADS)["items"]
        if any(o["name"] == owner for o in workload["metadata"].get("ownerReferences", []))
        for part in workload.get("status", {}).get("admission", {}).get("podSetAssignments", [])
        for chosen in part.get("flavors", {}).values()
    ]


@pytest.fixture
def slot(site: Site) -> dict[str, str]:
    """A label that no node has yet."""
    return {"slot": site.name()}


@pytest.fixture
def model(site: Site, slot: Mapping[str, str]) -> str:
    """A model for the nodes with that label."""
    name = site.base_model(site.push(), nodeSelector=dict(slot))
    site.until(lambda: "servingRevision" in site.status("ClusterBaseModel", name), "the model to be resolved")
    return name


@pytest.mark.parametrize("placement", ["required", "preferred", "gated"])
def test_the_pod_of_a_queued_job_runs_on_a_node_with_its_model(
    site: Site, slot: dict[str, str], model: str, placement: str
) -> None:
    queue = add_queue(site, slot)
    job = add_job(site, queue, model, placement)
    site.until(lambda: len(pods_of(site, job)) == 1, "the Job's pod, although no node fits yet")
    assert flavors_of(site, job) == [f"{queue}-0"]
    assert pods_of(site, job)[0]["spec"]["nodeSelector"].items() >= slot.items()
    site.label("a", slot)
    site.until(lambda: pods_of(site, job)[0]["spec"].get("nodeName") == "a", "the pod to be placed")
    site.until(lambda: ready_label(model) in site.labels("a"), "the files")
    site.api.delete(f"{JOBS}/{job}?propagationPolicy=Background")


def test_a_node_selector_of_the_template_excludes_flavors_without_the_label(
    site: Site, slot: dict[str, str], model: str
) -> None:
    queue = add_queue(site, {"slot": "elsewhere"}, slot)
    first = add_job(site, queue, model, "required")
    chosen = add_job(site, queue, model, "required", slot)
    site.until(lambda: flavors_of(site, first) == [f"{queue}-0"], "the flavor that is named first")
    site.until(lambda: flavors_of(site, chosen) == [f"{queue}-1"], "the flavor with the group's label")
    site.label("b", slot)
    site.until(lambda: [p["spec"].get("nodeName") for p in pods_of(site, chosen)] == ["b"], "its pod to be placed")
    for job in (first, chosen):
        site.api.delete(f"{JOBS}/{job}?propagationPolicy=Background")


def test_a_plain_pod_starts_once_larder_and_kueue_have_removed_their_gates(
    site: Site, slot: dict[str, str], model: str
) -> None:
    queue, name = site.name("queue"), site.name("pod")
    *_, job = objects()
    annotations = {GATE: model, "larder.dev/placement": "gated"}
    pod = {"metadata": {"name": name, "labels": {QUEUE: queue}, "annotations": annotations}}
    site.api.create(PODS, pod | {"spec": job["spec"]["template"]["spec"]})

    def gates() -> set[str]:
        return {gate["name"] for gate in site.api.get(f"{PODS}/{name}")["spec"].get("schedulingGates", [])}

    assert gates() >= {ADMISSION, GATE}
    site.label("a", slot)
    site.until(lambda: GATE not in gates(), "our gate to go with the files")
    assert ADMISSION in gates()
    flavor, cluster_queue, local, _ = objects()
    site.api.create(f"{KUEUE}/resourceflavors", flavor | {"metadata": {"name": queue}, "spec": {"nodeLabels": slot}})
    cluster_queue["spec"]["resourceGroups"][0]["flavors"][0]["name"] = queue
    site.api.create(f"{KUEUE}/clusterqueues", cluster_queue | {"metadata": {"name": queue}})
    site.api.create(QUEUES, local | {"metadata": {"name": queue}, "spec": {"clusterQueue": queue}})
    site.until(lambda: site.pod_node(name) == "a", "the pod to be placed")
    site.delete_pod(name)
