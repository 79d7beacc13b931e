"""Pods of many kinds, in baseline and restricted namespaces, are scheduled to nodes with their models."""

from collections.abc import Callable, Mapping

import pytest

from rig.larder.site import Site
from rig.pods import ENABLE_CACHE, KSERVE_URI, kserve_pod, plain_pod
from shared.json_object import Json

CONFINED: Json = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "runAsUser": 1000,
    "seccompProfile": {"type": "RuntimeDefault"},
}
NAMED = "larder.dev/model"
Kind = Callable[[str, Json], tuple[str, Json]]  # from a name and a pod to the collection and an object that creates it


def bare(name: str, pod: Json) -> tuple[str, Json]:
    return "api/v1/{}/pods", pod | {"metadata": pod["metadata"] | {"name": name}}


def _templated(pod: Json, name: str) -> Json:
    return {"metadata": {**pod["metadata"], "labels": {"app": name}}, "spec": pod["spec"]}


def deployment(name: str, pod: Json) -> tuple[str, Json]:
    spec = {"selector": {"matchLabels": {"app": name}}, "template": _templated(pod, name)}
    return "apis/apps/v1/{}/deployments", {"metadata": {"name": name}, "spec": spec}


def stateful_set(name: str, pod: Json) -> tuple[str, Json]:
    spec = {"selector": {"matchLabels": {"app": name}}, "serviceName": name, "template": _templated(pod, name)}
    return "apis/apps/v1/{}/statefulsets", {"metadata": {"name": name}, "spec": spec}


def job(name: str, pod: Json) -> tuple[str, Json]:
    template = _templated(pod, name)
    template["spec"] = {**template["spec"], "restartPolicy": "Never"}
    return "apis/batch/v1/{}/jobs", {"metadata": {"name": name}, "spec": {"template": template}}


KINDS: tuple[Kind, ...] = (bare, deployment, stateful_set, job)


@pytest.fixture(scope="module")
def models(site: Site) -> dict[str, frozenset[str]]:
    """Models of two kinds, and the nodes that each is on."""
    found = {
        site.base_model(nodeSelector={"kubernetes.io/hostname": "a"}): frozenset("a"),
        site.base_model(nodeSelector={"kubernetes.io/hostname": "c"}): frozenset("c"),
    }
    for name in found:
        site.wait_ready("ClusterBaseModel", name)
    return found


@pytest.fixture(scope="module")
def caches(site: Site) -> dict[str, frozenset[str]]:
    """Caches of two groups, by URI, and the nodes that each is on."""
    uris = {site.push(): frozenset("ab"), site.push(): frozenset("b")}
    for uri, nodes in uris.items():
        group = site.group({"kubernetes.io/hostname": "b"}) if len(nodes) == 1 else "gpus"
        site.wait_ready("ClusterModelCache", site.cache(uri, group))
    return uris


def confined(pod: Json) -> Json:
    """Return the pod with the fields that `restricted` requires."""
    spec = pod["spec"]
    changed = {
        part: [container | {"securityContext": CONFINED} for container in spec[part]]
        for part in ("containers", "initContainers")
        if part in spec
    }
    return pod | {"spec": spec | changed}


def named(model: str) -> Json:
    return plain_pod("any", {NAMED: model})


def from_kserve(uri: str) -> Json:
    pod = kserve_pod("any", uri)
    return pod | {"metadata": {"annotations": {ENABLE_CACHE: "true", KSERVE_URI: uri}}}


def test_20_of_20_pods_are_scheduled_to_a_node_that_has_their_model(
    site: Site, models: Mapping[str, frozenset[str]], caches: Mapping[str, frozenset[str]]
) -> None:
    wanted: dict[tuple[str, str], frozenset[str]] = {}
    made: list[str] = []
    for level in ("baseline", "restricted"):
        namespace = site.name(level)
        labels = {"pod-security.kubernetes.io/enforce": level}
        site.api.create("/api/v1/namespaces", {"metadata": {"name": namespace, "labels": labels}})
        site.api.ensure(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "default"}})
        asked = [(kind, named(model), nodes) for kind in KINDS for model, nodes in models.items()]
        asked += [(kind, from_kserve(uri), nodes) for kind, (uri, nodes) in zip(KINDS, caches.items(), strict=False)]
        for number, (kind, pod, nodes) in enumerate(asked):
            name = f"w{number:02}"
            collection, body = kind(name, confined(pod))
            path = f"/{collection.format(f'namespaces/{namespace}')}"
            site.api.create(path, body)
            made.append(f"{path}/{name}")
            wanted[namespace, name] = nodes

    landed: dict[tuple[str, str], str] = {}

    def all_landed() -> bool:
        for namespace in {namespace for namespace, _ in wanted}:
            for pod in site.api.get(f"/api/v1/namespaces/{namespace}/pods")["items"]:
                if node := pod["spec"].get("nodeName"):
                    landed[namespace, pod["metadata"]["name"].partition("-")[0]] = node
        return len(landed) == len(wanted)

    site.until(all_landed, "all pods to be scheduled")
    assert len(wanted) == 20
    assert {key: node for key, node in landed.items() if node not in wanted[key]} == {}
    for path in made:
        site.api.call("DELETE", f"{path}?propagationPolicy=Background")
