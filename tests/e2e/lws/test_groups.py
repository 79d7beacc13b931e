"""Groups of a leader and its workers get their model, with every kind of placement."""

import pytest

from controller.admission.pods.replica_claims import PLACEHOLDER
from rig.larder.site import Site
from shared.json_object import Json
from shared.names import ready_label
from tests.builders.replica_claims import GATE, pod_template
from tests.builders.replica_claims import template as claim_template
from tests.integration.system.download_pods import assert_injected, ready_model

SETS = "/apis/leaderworkerset.x-k8s.io/v1/namespaces/default/leaderworkersets"
PODS = "/api/v1/namespaces/default/pods"
GROUPS, SIZE = 2, 2


def create(site: Site, model: str, placement: str) -> str:
    """Create a set whose leaders and workers ask for a model, and return its name."""
    template = {
        "metadata": {"annotations": {"larder.dev/model": model, "larder.dev/placement": placement}},
        "spec": {"containers": [{"name": "server", "image": "server:none"}]},
    }
    name = site.name("set")
    groups = {"size": SIZE, "leaderTemplate": template, "workerTemplate": template}
    body = {"metadata": {"name": name}, "spec": {"replicas": GROUPS, "leaderWorkerTemplate": groups}}
    site.api.create(SETS, {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet"} | body)
    return name


def pods_of(site: Site, name: str) -> list[Json]:
    """Return the pods of a set."""
    found: list[Json] = site.api.get(f"{PODS}?labelSelector=leaderworkerset.sigs.k8s.io/name={name}")["items"]
    return found


@pytest.mark.parametrize("placement", ["required", "preferred", "gated"])
def test_every_pod_of_a_group_gets_the_model(site: Site, placement: str) -> None:
    slot = {"slot": site.name()}
    model = site.base_model(site.push(), nodeSelector=slot)
    site.until(lambda: "servingRevision" in site.status("ClusterBaseModel", model), "the model to be resolved")
    name = create(site, model, placement)
    site.until(lambda: len(pods_of(site, name)) == GROUPS * SIZE, f"all pods of {name}, although no node fits yet")
    for node in ("a", "b"):
        site.label(node, slot)

    def run_on_nodes_with_the_model() -> bool:
        nodes = [pod["spec"].get("nodeName", "") for pod in pods_of(site, name)]
        return all(node and ready_label(model) in site.labels(node) for node in nodes)

    site.until(run_on_nodes_with_the_model, f"the pods of {name} on nodes with {model}")
    for pod in pods_of(site, name):
        mounts = [m["name"] for c in pod["spec"]["containers"] for m in c["volumeMounts"]]
        assert any(volume["name"] in mounts and "persistentVolumeClaim" in volume for volume in pod["spec"]["volumes"])
        assert pod["metadata"]["annotations"]["larder.dev/models"].startswith(f"{model}@")
    site.until(
        lambda: site.api.get(f"{SETS}/{name}").get("status", {}).get("readyReplicas") == GROUPS,
        f"{name} to count both groups as ready",
    )
    site.api.delete(f"{SETS}/{name}")


def test_every_pod_of_a_group_gets_a_model_on_a_claim_of_its_namespace(site: Site) -> None:
    """A Model (`models.example.com`), whose claim both leaders and workers mount."""
    model, name = ready_model(site), site.name("set")
    template = {
        "metadata": {"annotations": {"models.example.com/inject": model}},
        "spec": {"containers": [{"name": "server", "image": "server:none"}]},
    }
    groups = {"size": SIZE, "leaderTemplate": template, "workerTemplate": template}
    body = {"metadata": {"name": name}, "spec": {"replicas": GROUPS, "leaderWorkerTemplate": groups}}
    site.api.create(SETS, {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet"} | body)
    site.until(lambda: len(pods_of(site, name)) == GROUPS * SIZE, f"all pods of {name}")
    for pod in pods_of(site, name):
        assert_injected(pod, model)
    site.api.delete(f"{SETS}/{name}?propagationPolicy=Foreground")
    site.until(lambda: not pods_of(site, name), f"the pods of {name} to be gone")
    site.delete("Model", model)


def test_the_set_owns_the_claims_of_its_pods_and_recreated_pods_reuse_them(site: Site) -> None:
    """StatefulSets refuse mounts without a volume, so the templates name the placeholder."""
    pods = pod_template([claim_template()], "data")
    pods["spec"] |= {"restartPolicy": "Always"}
    pods["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": PLACEHOLDER}}]
    name = site.name("set")
    body = {
        "metadata": {"name": name},
        "spec": {"replicas": 1, "leaderWorkerTemplate": {"size": 2, "workerTemplate": pods}},
    }
    kind = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet"}
    made = site.api.create(SETS, kind | body)
    wanted = {f"data-{name}-0", f"data-{name}-0-1"}
    path = "/api/v1/namespaces/default/persistentvolumeclaims"

    def claims() -> dict[str, Json]:
        found = ((c["metadata"]["name"], c["metadata"]) for c in site.api.get(path)["items"])
        return {claim: meta for claim, meta in found if claim in wanted}

    def released(other_than: set[str]) -> bool:
        found = [pod for pod in pods_of(site, name) if pod["metadata"]["uid"] not in other_than]
        gates = [gate["name"] for pod in found for gate in pod["spec"].get("schedulingGates", [])]
        return len(found) == 2 and GATE not in gates

    site.until(lambda: released(set()), f"the pods of {name}")
    before, first = claims(), {pod["metadata"]["uid"] for pod in pods_of(site, name)}
    assert before.keys() == wanted
    for meta in before.values():
        (owner,) = meta["ownerReferences"]
        assert (owner["kind"], owner["uid"]) == ("LeaderWorkerSet", made["metadata"]["uid"])
    site.api.delete(f"{PODS}/{name}-0", grace_s=0)  # the whole group is recreated with its leader
    site.until(lambda: released(first), f"the successors of the pods of {name}")
    assert {claim: meta["uid"] for claim, meta in claims().items()} == {c: meta["uid"] for c, meta in before.items()}
    site.api.delete(f"{SETS}/{name}?propagationPolicy=Foreground")
    site.until(lambda: not claims(), "the claims to be collected with the set")
