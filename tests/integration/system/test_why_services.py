"""`larder why` about services and other objects: what blocks their pods is found through owner references."""

import pytest

from rig.larder.site import Site
from rig.pods import base_model_pod, plain_pod
from shared.json_object import Json
from tests.integration.system.conftest import Why
from tests.integration.system.sites import KSERVE_SERVICES

DEFAULT = "/api/v1/namespaces/default"
REFUSAL = "there is no BaseModel 'nobody' in namespace default and no ClusterBaseModel of that name"
DISCOVERY = {"Accept": "application/json;v=v2;g=apidiscovery.k8s.io;as=APIGroupDiscoveryList"}


def owner(made: Json, api_version: str, kind: str) -> list[Json]:
    meta = made["metadata"]
    return [{"apiVersion": api_version, "kind": kind, "name": meta["name"], "uid": meta["uid"], "controller": True}]


def workload(site: Site, kind: str, owners: list[Json], pod: Json, namespace: str = "default") -> str:
    """Create a Deployment or StatefulSet with one pod of this kind, and return its name."""
    name = site.name("web")
    template = {"metadata": pod["metadata"] | {"labels": {"app": name}}, "spec": pod["spec"]}
    template["metadata"].pop("name", None)
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": template}
    body = {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "ownerReferences": owners}, "spec": spec}
    site.api.create(f"/apis/apps/v1/namespaces/{namespace}/{kind.lower()}s", body)
    return name


def is_discovered(site: Site, group: str, version: str) -> bool:
    """Return whether the API server lists the kinds of a version; it serves a new one up to a minute earlier."""
    groups = site.api._http.get("/apis", headers=DISCOVERY).json()["items"]
    versions = [v for g in groups if g["metadata"]["name"] == group for v in g["versions"]]
    return any(found["version"] == version and found.get("resources") for found in versions)


@pytest.mark.usefixtures("kserve")
def test_a_service_is_explained_by_its_refused_pods_and_an_ambiguous_name_lists_both_groups(
    site: Site, why: Why
) -> None:
    ours = site.create("InferenceService", site.name("svc"), {"model": {"name": "nobody"}, "template": template()})
    made = site.api.create(KSERVE_SERVICES, {
        "apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService", "metadata": {"name": ours},
        "status": {"conditions": [{"type": "Ready", "status": "False", "reason": "Slow", "message": "no pods yet"}]},
    })  # fmt: skip
    web = workload(
        site,
        "Deployment",
        owner(made, "serving.kserve.io/v1beta1", "InferenceService"),
        base_model_pod("any", "nobody"),
    )
    site.until(lambda: is_discovered(site, "serving.kserve.io", "v1beta1"), "KServe's kind to be listed")
    output = why(f"isvc/{ours}", exits=1)
    assert "Ambiguous: 2 API groups have an object of this kind and name" in output
    assert f"inferenceservices.ome.io/{ours}" in output
    kserve = f"isvc.serving.kserve.io/{ours}"
    blocked = f"! Deployment {web}: admission: PodRefused: {REFUSAL}"
    site.until(lambda: blocked in why(kserve), "the refusal to be reported")
    output = why(f"inferenceservices.serving.kserve.io/default/{ours}")
    assert output.splitlines()[0] == f"InferenceService default/{ours}: Deployment {web}: template: ModelNotFound"
    assert "~ status: Slow: no pods yet" in output
    site.until(lambda: "! status: ModelNotFound" in why(f"isvc.ome.io/{ours}"), "the service of OME to be reported")
    site.delete("InferenceService", ours)
    site.api.delete(f"{KSERVE_SERVICES}/{ours}")


def template() -> Json:
    return {"spec": {"containers": [{"name": "main", "image": "pause:3.10"}]}}


def test_owners_are_followed_through_kinds_without_special_handling(site: Site, why: Why) -> None:
    name = site.name("root")
    root = site.api.create(f"{DEFAULT}/serviceaccounts", {"metadata": {"name": name}})
    middle = site.api.create(
        f"{DEFAULT}/configmaps",
        {"metadata": {"name": name, "ownerReferences": owner(root, "v1", "ServiceAccount")}},
    )
    refused = workload(site, "StatefulSet", owner(middle, "v1", "ConfigMap"), base_model_pod("any", "nobody"))
    running = workload(site, "Deployment", owner(middle, "v1", "ConfigMap"), plain_pod("any"))
    blocked = f"! StatefulSet {refused}: admission: PodRefused: {REFUSAL}"
    site.until(lambda: blocked in why(f"sa/{name}"), "the refusal to be reported")
    assert blocked in why(f"ConfigMap/{name}")
    selector = f"{DEFAULT}/pods?labelSelector=app={running}"
    site.until(lambda: bool(site.api.get(selector)["items"]), "the pod")
    (pod,) = site.api.get(selector)["items"]
    chain = f"of Deployment {running} of ConfigMap {name} of ServiceAccount {name}"
    assert chain in why(f"pod/{pod['metadata']['name']}")
    assert "the cluster serves no kind 'frob.example.com'" in why("frob.example.com/x", exits=1)
    assert "this command reads no Secrets" in why("secret/x", exits=1)
    assert "there is no such object in namespace default" in why("configmap/nobody", exits=1)
    for kind, one in (("statefulset", refused), ("deployment", running)):
        site.api.delete(f"/apis/apps/v1/namespaces/default/{kind}s/{one}")
    site.api.delete(f"{DEFAULT}/serviceaccounts/{name}")


def test_refusals_of_pod_security_and_quotas_are_reported_with_the_server_s_message(site: Site, why: Why) -> None:
    model, team = site.base_model(nodeSelector={"gpu": "yes"}), site.name("team")
    site.wait_ready("ClusterBaseModel", model)
    labels = {"pod-security.kubernetes.io/enforce": "baseline"}
    site.api.create("/api/v1/namespaces", {"metadata": {"name": team, "labels": labels}})
    own = f"/api/v1/namespaces/{team}"
    site.until(lambda: site.api.answers(f"{own}/serviceaccounts/default"), "its account")
    privileged = base_model_pod("any", model)
    privileged["spec"]["hostNetwork"] = True
    web = workload(site, "Deployment", [], privileged, team)
    violates = 'violates PodSecurity "baseline:latest": host namespaces'
    site.until(lambda: f'! API server: FailedCreate: pods "{web}-' in why(f"deploy/{team}/{web}"), "the refusal")
    assert violates in why(f"deploy/{team}/{web}")
    quota = {"metadata": {"name": "none"}, "spec": {"hard": {"persistentvolumeclaims": "0"}}}
    site.api.create(f"{own}/resourcequotas", quota)
    site.until(lambda: "used" in site.api.get(f"{own}/resourcequotas/none").get("status", {}), "the quota")
    waiting = workload(site, "Deployment", [], base_model_pod("any", model), team)
    phrase = f"claim/{model}: VolumeRefused: the claim '{model}' for the pod's model cannot be created"
    site.until(lambda: phrase in why(f"deploy/{team}/{waiting}"), "the claim to be reported")
    (pod,) = site.api.get(f"{own}/pods?labelSelector=app={waiting}")["items"]
    output = why(f"pod/{team}/{pod['metadata']['name']}")
    assert f"! {phrase}" in output
    assert "exceeded quota: none" in output
    site.api.delete(f"/api/v1/namespaces/{team}")
