"""Pods that may wait for their model on a node: where a real scheduler places them."""

import hashlib
import os

import pytest

from rig.errors import CallRefused
from rig.hub.faults import Stall
from rig.larder.objects import path_of
from rig.larder.site import Site
from rig.pods import base_model_pod, plain_pod
from shared.names import draining_label, fetching_label, ready_label

_PREFERRED = {"larder.dev/placement": "preferred"}
_PODS = "/api/v1/namespaces/default/pods"
STATES = ("Draining", "Absent")


def preferred(site: Site, annotations: dict[str, str]) -> str:
    """Create a preferred pod and return its name."""
    body = plain_pod(site.name("pod"), annotations | _PREFERRED)
    return str(site.pod(body, behind="there is no")["metadata"]["name"])


def wait_for_node(site: Site, pod: str) -> str:
    site.until(lambda: site.pod_node(pod) != "", f"pod {pod} to be scheduled")
    return site.pod_node(pod)


def resolved(site: Site, kind: str, name: str) -> str:
    """Wait until a model has a revision for pods, and return it."""
    site.until(lambda: "servingRevision" in site.status(kind, name), "the model to be resolved")
    return str(site.status(kind, name)["servingRevision"])


def large_model(site: Site) -> tuple[str, str]:
    """Push a model that takes a while, and return its URI and the path of its large file at the hub."""
    content = os.urandom(2_000_000)
    return site.push(files={"weights.bin": content}), f"*{hashlib.sha256(content).hexdigest()}"


def test_a_preferred_pod_runs_in_the_group_and_prefers_a_node_with_the_files(site: Site) -> None:
    slot, (uri, stalled) = {"slot": site.name()}, large_model(site)
    cache = site.cache(uri, group=site.group(slot))
    revision = resolved(site, "ClusterModelCache", cache)
    asking = {"larder.dev/model": f"clustermodelcache/{cache}"}
    waiting = preferred(site, asking)

    def is_pending() -> bool:
        conditions = site.api.get(f"/api/v1/namespaces/default/pods/{waiting}")["status"].get("conditions", [])
        return any("didn't match Pod's node affinity/selector" in c.get("message", "") for c in conditions)

    site.until(is_pending, "the pod to fit no node, as the group has none")
    site.hub.faults.add(Stall(100_000), stalled)
    site.label("a", slot)
    assert wait_for_node(site, waiting) == "a", "the first node of the group, long before it has the files"
    site.until(lambda: fetching_label(cache, revision) in site.labels("a"), "the node to be labelled as fetching")
    assert ready_label(cache) not in site.labels("a")
    site.label("b", slot)
    site.hub.faults.clear()
    site.until(lambda: ready_label(cache) in site.labels("a"), "the files")
    assert fetching_label(cache, revision) not in site.labels("a")

    site.until(lambda: ready_label(cache) in site.labels("b"), "the files on the second node")
    site.hub.faults.add(Stall(100_000), stalled)
    site.label("c", slot)
    pods = [preferred(site, asking) for _ in range(4)]
    assert {wait_for_node(site, pod) for pod in pods} <= {"a", "b"}
    for pod in (waiting, *pods):
        site.delete_pod(pod)


def test_a_waiting_pod_gets_a_bound_claim_and_counts_as_a_user(site: Site) -> None:
    slot, (uri, stalled) = {"slot": site.name()}, large_model(site)
    model = site.base_model(uri, nodeSelector=slot)
    resolved(site, "ClusterBaseModel", model)
    site.hub.faults.add(Stall(100_000), stalled)
    site.label("a", slot)
    body = base_model_pod(site.name("pod"), model)
    body["metadata"]["annotations"] |= _PREFERRED
    pod = site.pod(body)
    name = pod["metadata"]["name"]
    assert wait_for_node(site, name) == "a"
    (claim,) = (v["persistentVolumeClaim"]["claimName"] for v in pod["spec"]["volumes"] if v["name"] == "larder-model")
    found = site.api.get(f"/api/v1/namespaces/default/persistentvolumeclaims/{claim}")
    assert found["status"]["phase"] == "Bound"
    assert found["metadata"]["name"] != model
    site.hub.faults.clear()
    site.wait_ready("ClusterBaseModel", model)
    site.until(lambda: any(e.get("inUse") for e in site.entries("a", model)), "the pod to count as a user")
    with pytest.raises(CallRefused, match=f"used by 1 pod: default/{name}"):
        site.delete("ClusterBaseModel", model)
    site.delete_pod(name)
    site.delete_unused("ClusterBaseModel", model)
    site.until(lambda: site.is_gone("ClusterBaseModel", model), "the model to go with its last user")


def test_a_preferred_pod_is_not_bound_to_a_node_until_a_running_removal_has_finished(site: Site) -> None:
    slot = {"slot": site.name()}
    model = site.base_model(site.push(), nodeSelector=slot)
    site.label("a", slot)
    site.wait_ready("ClusterBaseModel", model)
    revision = resolved(site, "ClusterBaseModel", model)
    pods = [held_back(site, model) for _ in STATES]
    site.api.patch(path_of("ClusterBaseModel", model), {"spec": {"storage": {"nodeSelector": {"slot": "other"}}}})
    seen: list[str] = []

    def is_gone() -> bool:
        """Release one pod to the scheduler at each step of the removal; return whether the entry is gone."""
        states = {entry.get("state", "Present") for entry in site.entries("a", model)}
        drains = draining_label(model, revision) in site.labels("a")
        for state, pod in zip(STATES, pods, strict=True):
            if state in states and drains and state not in seen:
                site.api.patch(f"{_PODS}/{pod}", {"spec": {"schedulingGates": None}})
                seen.append(state)
        bound = [pod for pod in pods if site.pod_node(pod)]
        assert not (bound and site.snapshot("a", model, revision).exists()), f"{bound} was bound too early"
        return not states

    site.until(is_gone, "the entry to go although pods were on their way")
    assert seen[0] == STATES[0]
    for pod in pods:
        site.api.patch(f"{_PODS}/{pod}", {"spec": {"schedulingGates": None}})
        assert wait_for_node(site, pod) == "a", "the group of the pod, now that the files are gone"
        site.delete_pod(pod)
    assert draining_label(model, revision) not in site.labels("a")


def held_back(site: Site, model: str) -> str:
    """Create a preferred pod with a foreign scheduling gate, and return its name."""
    body = base_model_pod(site.name("pod"), model)
    body["metadata"]["annotations"] |= _PREFERRED
    body["spec"]["schedulingGates"] = [{"name": "rig/held"}]
    return str(site.pod(body)["metadata"]["name"])
