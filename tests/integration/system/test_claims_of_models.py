"""The claim of a model sends every pod that mounts it to nodes with the files, and keeps its revision."""

import os

from rig.larder.objects import path_of
from rig.larder.site import Site
from rig.pods import base_model_pod, plain_pod
from shared.json_object import Json
from shared.names import snapshot_path

_PODS = "/api/v1/namespaces/default/pods"
_CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
_VOLUMES = "/api/v1/persistentvolumes"
_KIND = "ClusterBaseModel"


def on_claim(site: Site, claim: str, affinity: Json) -> str:
    """Create a pod that mounts a claim without asking Larder for anything, and return its name."""
    pod = plain_pod(site.name("own"))
    pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "m", "mountPath": "/m"}]
    pod["spec"] |= {"volumes": [{"name": "m", "persistentVolumeClaim": {"claimName": claim}}], "affinity": affinity}
    made = site.api.create(_PODS, pod)
    assert "larder.dev/models" not in made["metadata"].get("annotations", {})
    return str(made["metadata"]["name"])


def claim_of(pod: Json) -> str:
    """Return the claim that a pod was given."""
    volumes = pod["spec"]["volumes"]
    return next(str(v["persistentVolumeClaim"]["claimName"]) for v in volumes if v["name"] == "larder-model")


def path_behind(site: Site, claim: str) -> str:
    """Wait until a claim is bound, and return the directory of its volume."""

    def is_bound() -> bool:
        return any(
            c["metadata"]["name"] == claim and c["status"].get("phase") == "Bound"
            for c in site.api.get(_CLAIMS)["items"]
        )

    site.until(is_bound, f"claim {claim} to be bound")
    volume = site.api.get(f"{_CLAIMS}/{claim}")["spec"]["volumeName"]
    return str(site.api.get(f"{_VOLUMES}/{volume}")["spec"]["local"]["path"])


def unschedulable(site: Site, pod: str) -> str:
    """Return why the scheduler finds no node for a pod; empty if it has not tried yet."""
    conditions = site.api.get(f"{_PODS}/{pod}")["status"].get("conditions", [])
    return next(
        (c.get("message", "") for c in conditions if c["type"] == "PodScheduled" and c["status"] == "False"), ""
    )


def test_a_pod_that_mounts_the_claim_itself_runs_only_where_the_files_are(site: Site) -> None:
    slot = {"slot": site.name()}
    model = site.base_model(nodeSelector=slot)
    site.label("a", slot)
    site.wait_ready(_KIND, model)
    user = site.pod(base_model_pod(site.name("pod"), model))
    path_behind(site, claim_of(user))
    elsewhere = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["c"]}]}
    prefers = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": elsewhere}]}
    requires = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [elsewhere]}}
    pods = [on_claim(site, claim_of(user), {"nodeAffinity": prefers}) for _ in range(4)]
    stuck = on_claim(site, claim_of(user), {"nodeAffinity": requires})
    for pod in pods:
        site.until(lambda p=pod: site.pod_node(p) != "", "the pod to be scheduled")  # type: ignore[misc]
    assert {site.pod_node(pod) for pod in pods} == {"a"}
    site.until(lambda: unschedulable(site, stuck) != "", "the scheduler to find no node")
    assert site.pod_node(stuck) == ""
    for pod in (*pods, stuck, user["metadata"]["name"]):
        site.delete_pod(pod)


def test_a_new_revision_gets_its_own_volume_and_claim_and_running_pods_keep_theirs(site: Site) -> None:
    uri = site.push(files={"config.json": os.urandom(100)})
    model = site.base_model(uri, nodeSelector={"gpu": "yes"})
    old = site.wait_ready(_KIND, model)["servingRevision"]
    first = site.pod(base_model_pod(site.name("pod"), model))
    assert path_behind(site, claim_of(first)).endswith(snapshot_path(model, old))
    before = site.api.get(f"{_CLAIMS}/{claim_of(first)}")["metadata"]["uid"]
    site.until(lambda: site.pod_node(first["metadata"]["name"]) != "", "the first pod to have a node")
    node = site.pod_node(first["metadata"]["name"])

    site.push(files={"config.json": os.urandom(100)}, repo=uri.removeprefix("hf://"))
    site.api.patch(path_of(_KIND, model), {"metadata": {"annotations": {"larder.dev/refresh": "one"}}})
    site.until(lambda: site.status(_KIND, model)["servingRevision"] != old, "the flip")
    new = site.status(_KIND, model)["servingRevision"]
    made: list[Json] = []

    def has_new() -> bool:
        """Create a pod and return whether it got the new revision; replicas see the update after a moment."""
        made.append(site.pod(base_model_pod(site.name("pod"), model)))
        return bool(made[-1]["metadata"]["annotations"]["larder.dev/models"].endswith(new))

    site.until(has_new, "a pod with the new revision")
    second = made[-1]
    assert claim_of(second) != claim_of(first)
    assert path_behind(site, claim_of(second)).endswith(snapshot_path(model, new))
    kept = site.api.get(f"{_CLAIMS}/{claim_of(first)}")
    assert (kept["metadata"]["uid"], kept["status"]["phase"]) == (before, "Bound")
    assert path_behind(site, claim_of(first)).endswith(snapshot_path(model, old))
    assert site.snapshot(node, model, old).exists()

    for pod in (first, *made[:-1]):
        site.delete_pod(pod["metadata"]["name"])
    site.until(lambda: not site.api.answers(f"{_CLAIMS}/{claim_of(first)}"), "the claim of the old revision to be gone")
    site.until(lambda: not site.snapshot(node, model, old).exists(), "the old files to be gone")
    assert path_behind(site, claim_of(second)).endswith(snapshot_path(model, new))
    site.delete_pod(second["metadata"]["name"])
