"""`larder.dev/model` on pods of all workloads, and the message if the name does not name exactly one model."""

import re
from collections.abc import Iterator

import pytest

from rig.errors import CallRefused
from rig.larder.site import Site
from shared.json_object import Json
from tests.integration.system.sites import GPU

NAMED = "larder.dev/model"
PODS = "/api/v1/namespaces/default/pods"
BASE_MODELS = "/apis/ome.io/v1beta1/namespaces/default/basemodels"
KINDS = {"Deployment": "apps", "ReplicaSet": "apps", "StatefulSet": "apps", "Job": "batch"}


@pytest.fixture(scope="module")
def model(site: Site) -> Iterator[str]:
    """A model that is ready on the GPU nodes."""
    name = site.base_model(nodeSelector=GPU)
    site.wait_ready("ClusterBaseModel", name)
    yield name
    site.delete("ClusterBaseModel", name)


def workload(site: Site, kind: str, text: str) -> str:
    """Create a workload whose pods name models, and return its API path."""
    name, labels = site.name("web"), {"app": site.name("app")}
    pod = {"containers": [{"name": "main", "image": "pause:3.10"}], "restartPolicy": "Always"}
    template = {"metadata": {"labels": labels, "annotations": {NAMED: text}}, "spec": pod}
    spec: Json = {"template": template}
    if kind == "Job":
        pod["restartPolicy"] = "Never"
    else:
        spec |= {"replicas": 1, "selector": {"matchLabels": labels}}
    group, path = KINDS[kind], f"/apis/{KINDS[kind]}/v1/namespaces/default/{kind.lower()}s"
    site.api.create(path, {"apiVersion": f"{group}/v1", "kind": kind, "metadata": {"name": name}, "spec": spec})
    return f"{path}/{name}"


def refusal(site: Site, path: str) -> str:
    """Return why the pods of a workload cannot be created: an Event on it, or on the ReplicaSet of a Deployment."""
    name = path.rpartition("/")[2]

    def messages() -> list[str]:
        events = site.api.get("/api/v1/namespaces/default/events")["items"]
        about = re.compile(rf"{name}(-[a-z0-9]+)?")
        found = [e for e in events if e["reason"] == "FailedCreate" and about.fullmatch(e["involvedObject"]["name"])]
        return [str(e["message"]) for e in found]

    site.until(lambda: bool(messages()), f"the refusal of the pods of {name}")
    return messages()[0]


@pytest.mark.parametrize("kind", KINDS)
def test_an_unknown_model_name_is_refused_with_similar_names(site: Site, model: str, kind: str) -> None:
    path = workload(site, kind, f"{model}x")
    message = refusal(site, path)
    assert f"namespace default has no model '{model}x', neither a BaseModel or ModelCache of its own nor" in message
    assert re.search(rf"similar names are [^;]*{model}[,;]", message)
    site.api.delete(path)


@pytest.fixture(scope="module")
def twins(site: Site) -> Iterator[str]:
    """The name of a BaseModel and of a ClusterBaseModel with other files."""
    name = site.base_model(nodeSelector=GPU)
    site.wait_ready("ClusterBaseModel", name)
    storage = {"storage": {"storageUri": site.push(), "nodeSelector": GPU}}
    declared = {"apiVersion": "ome.io/v1beta1", "kind": "BaseModel", "metadata": {"name": name}, "spec": storage}
    site.api.create(BASE_MODELS, declared)
    site.until(lambda: not is_admitted(site, name), "admission to know both")
    yield name
    site.api.delete(f"{BASE_MODELS}/{name}")
    site.delete("ClusterBaseModel", name)


def is_admitted(site: Site, text: str) -> bool:
    spec = {"containers": [container("main")]}
    body = {"metadata": {"generateName": "p-", "annotations": {NAMED: text}}, "spec": spec}
    try:
        site.api.create(f"{PODS}?dryRun=All", body)
    except CallRefused:
        return False
    return True


@pytest.mark.parametrize("kind", KINDS)
def test_an_ambiguous_model_name_is_refused_with_the_candidates(site: Site, twins: str, kind: str) -> None:
    path = workload(site, kind, twins)
    message = refusal(site, path)
    assert f"several models with different files are named '{twins}'; write one of" in message
    assert f"basemodel/{twins}, clusterbasemodel/{twins}" in message
    site.api.delete(path)


def test_the_kind_distinguishes_models_of_the_same_name(site: Site, twins: str) -> None:
    assert is_admitted(site, f"clusterbasemodel/{twins}")
    assert not is_admitted(site, f"clustermodelcache/{twins}")


def owner(kind: str, group: str) -> list[Json]:
    return [{"apiVersion": f"{group}/v1", "kind": kind, "name": "x", "uid": "b5b0b5b0-1111-4222-8333-444444444444"}]


def container(name: str, **fields: object) -> Json:
    return {"name": name, "image": "pause:3.10", **fields}


OF_OPERATORS: dict[str, Json] = {
    "LeaderWorkerSet": {
        "metadata": {
            "name": "lws-0-1",
            "labels": {"leaderworkerset.sigs.k8s.io/name": "lws", "leaderworkerset.sigs.k8s.io/worker-index": "1"},
            "ownerReferences": owner("StatefulSet", "apps"),
        },
        "spec": {
            "containers": [container("worker", env=[{"name": "LWS_LEADER_ADDRESS", "value": "lws-0.lws"}])],
            "hostname": "lws-0-1",
            "subdomain": "lws",
        },
    },
    "JobSet": {
        "metadata": {
            "generateName": "set-workers-0-0-",
            "labels": {"jobset.sigs.k8s.io/jobset-name": "set", "batch.kubernetes.io/job-name": "set-workers-0"},
            "annotations": {"batch.kubernetes.io/job-completion-index": "0"},
            "ownerReferences": owner("Job", "batch"),
        },
        "spec": {
            "containers": [container("trainer"), container("logger")],
            "initContainers": [container("fetch-data")],
            "restartPolicy": "Never",
            "nodeSelector": {"gpu": "yes"},
        },
    },
    "RayCluster": {
        "metadata": {
            "generateName": "ray-worker-",
            "labels": {"ray.io/cluster": "ray", "ray.io/node-type": "worker"},
            "ownerReferences": owner("RayCluster", "ray.io"),
        },
        "spec": {
            "containers": [
                container("ray-worker", volumeMounts=[{"name": "shared-mem", "mountPath": "/dev/shm"}]),  # noqa: S108 - as Ray writes it
                container("autoscaler"),
            ],
            "initContainers": [container("wait-gcs-ready", command=["sleep", "1"])],
            "volumes": [{"name": "shared-mem", "emptyDir": {"medium": "Memory"}}],
        },
    },
    "LLMInferenceService": {
        "metadata": {
            "generateName": "chat-kserve-",
            "labels": {"app.kubernetes.io/part-of": "llminferenceservice", "app.kubernetes.io/name": "chat"},
            "ownerReferences": owner("ReplicaSet", "apps"),
        },
        "spec": {
            "containers": [container("main", ports=[{"containerPort": 8000}]), container("llm-d-routing-sidecar")],
            "initContainers": [container("sidecar", restartPolicy="Always")],
            "volumes": [{"name": "tls", "emptyDir": {}}],
        },
    },
}


@pytest.mark.parametrize("maker", OF_OPERATORS)
def test_pods_of_other_operators_get_their_model_in_every_container(site: Site, model: str, maker: str) -> None:
    shape = OF_OPERATORS[maker]
    metadata = shape["metadata"] | {"annotations": {NAMED: model, **shape["metadata"].get("annotations", {})}}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": shape["spec"]}
    pod = site.api.create(f"{PODS}?dryRun=All", body)
    spec = pod["spec"]
    for one in (*spec.get("initContainers", []), *spec["containers"]):
        mounts = {mount["mountPath"]: mount for mount in one["volumeMounts"]}
        assert mounts["/opt/ml/model"]["readOnly"] is True, one["name"]
        assert {"name": "MODEL_PATH", "value": "/opt/ml/model"} in one["env"]
    assert shape["spec"].get("nodeSelector", {}).items() <= spec["nodeSelector"].items()
    assert spec["nodeSelector"][f"model-cache-ready-{model}"] == "true"
    assert {v["name"] for v in shape["spec"].get("volumes", [])} <= {v["name"] for v in spec["volumes"]}
    assert pod["metadata"]["ownerReferences"] == metadata["ownerReferences"]
    assert pod["metadata"]["labels"].items() >= metadata["labels"].items()
