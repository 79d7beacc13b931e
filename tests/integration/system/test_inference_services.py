"""InferenceServices with the real Deployment controller and garbage collector; the test acts as the kubelet."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from rig.errors import CallRefused
from rig.larder.site import Site
from rig.pods import base_model_pod, kserve_pod
from shared.json_object import Json
from shared.names import ready_label, snapshot_label
from tests.integration.system.sites import GPU, KSERVE_SERVICES
from tests.integration.system.unguarded import delete_unguarded

PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
SERVICES = "/api/v1/namespaces/default/services"
INFERENCE_SERVICES = "/apis/ome.io/v1beta1/namespaces/default/inferenceservices"
SCALERS = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
KIND = "InferenceService"
LABEL = "larder.dev/inference-service"


@pytest.fixture(autouse=True)
def _no_services(site: Site) -> Iterator[None]:
    """Delete all services after each test, because each protects its model."""
    yield
    for found in site.api.get(INFERENCE_SERVICES)["items"]:
        site.api.delete(f"{INFERENCE_SERVICES}/{found['metadata']['name']}")
    for pod in site.api.get(f"{PODS}?labelSelector={LABEL}")["items"]:
        site.api.delete(f"{PODS}/{pod['metadata']['name']}", grace_s=0)


def template(*names: str, image: str = "pause:3.10") -> Json:
    containers = [{"name": name, "image": image} for name in names or ("main", "side")]
    return {"metadata": {"labels": {"mine": "yes"}}, "spec": {"containers": containers}}


def serve(site: Site, model: str = "", /, **spec: object) -> str:
    """Declare a service of a ClusterBaseModel, unless the spec says otherwise, and return its name."""
    named = {"model": {"kind": "ClusterBaseModel", "name": model}} if model else {}
    return site.create(KIND, site.name("svc"), {"template": template(), **named, **spec})


def ready_model(site: Site) -> str:
    """Declare a model on the GPU nodes and return its name once they have it."""
    model = site.base_model(nodeSelector=GPU)
    site.wait_ready("ClusterBaseModel", model)
    return model


def condition(site: Site, name: str, kind: str = "Ready") -> Json:
    found = site.get(KIND, name).get("status", {}).get("conditions", [])
    return next((c for c in found if c["type"] == kind), {})


def wait_reason(site: Site, name: str, reason: str, kind: str = "Ready") -> str:
    """Wait for a condition's reason and return its message."""
    site.until(lambda: condition(site, name, kind).get("reason") == reason, f"{name} to report {reason}")
    return str(condition(site, name, kind)["message"])


def deployment(site: Site, name: str) -> Json:
    site.until(lambda: site.api.answers(f"{DEPLOYMENTS}/{name}"), "the Deployment")
    found: Json = site.api.get(f"{DEPLOYMENTS}/{name}")
    return found


def pods_of(site: Site, name: str, count: int = 1) -> list[Json]:
    """Return a service's pods once there are this many."""
    query = f"{PODS}?labelSelector={LABEL}={name}"
    site.until(lambda: len(site.api.get(query)["items"]) == count, f"{count} pods of {name}")
    found: list[Json] = site.api.get(query)["items"]
    return found


def run(site: Site, pod: Json) -> None:
    """Report that a pod is ready, as its kubelet would."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": now}
    body = {"status": {"phase": "Running", "conditions": [ready], "podIP": "10.1.2.3", "podIPs": [{"ip": "10.1.2.3"}]}}
    site.api.patch(f"{PODS}/{pod['metadata']['name']}/status", body)


def test_a_service_waits_for_its_model_and_then_serves_it(site: Site) -> None:
    model = site.name("model")
    name = serve(site, model, port=9000)
    assert f"there is no ClusterBaseModel {model}; create it" in wait_reason(site, name, "ModelNotFound")
    assert condition(site, name, "ModelReady")["status"] == "False"
    assert not site.api.answers(f"{DEPLOYMENTS}/{name}"), "no pod is created before the model is ready"
    front = site.api.get(f"{SERVICES}/{name}")["spec"]
    assert (front["ports"][0]["port"], front["selector"]) == (9000, {LABEL: name})
    site.base_model(name=model, nodeSelector=GPU)
    revision = site.wait_ready("ClusterBaseModel", model)["servingRevision"]
    (pod,) = pods_of(site, name)
    main, side = pod["spec"]["containers"]
    assert [m["mountPath"] for m in main["volumeMounts"] if m["name"] == "larder-model"] == ["/opt/ml/model"]
    assert {e["name"] for e in main["env"]} == {"MODEL_PATH"}
    assert "env" not in side
    assert all(m["name"] != "larder-model" for m in side.get("volumeMounts", []))
    wanted = {ready_label(model): "true", snapshot_label(model, revision): "true"}
    assert pod["spec"]["nodeSelector"] == wanted
    assert pod["metadata"]["labels"]["mine"] == "yes"
    run(site, pod)
    assert wait_reason(site, name, "Serving") == "1 of 1 pods are ready"
    status = site.status(KIND, name)
    assert (status["url"], status["readyReplicas"]) == (f"http://{name}.default.svc:9000", 1)
    assert status["model"] == f"ClusterBaseModel {model}"
    assert condition(site, name, "ModelReady")["status"] == "True"


def test_a_running_service_can_be_recreated_instead_of_rolled(site: Site) -> None:
    """The API server gave its Deployment the parameters of a rolling update."""
    name = serve(site, ready_model(site))
    assert deployment(site, name)["spec"]["strategy"]["type"] == "RollingUpdate"
    site.api.patch(f"{INFERENCE_SERVICES}/{name}", {"spec": {"strategy": {"type": "Recreate"}}})
    site.until(lambda: deployment(site, name)["spec"]["strategy"] == {"type": "Recreate"}, "the strategy to change")
    site.api.patch(f"{INFERENCE_SERVICES}/{name}", {"spec": {"strategy": None}})
    site.until(lambda: deployment(site, name)["spec"]["strategy"]["type"] == "RollingUpdate", "the default to be back")


def test_a_service_without_a_model_can_be_stopped(site: Site) -> None:
    name = serve(site, ready_model(site))
    pods_of(site, name)
    missing = {"kind": "ClusterBaseModel", "name": site.name("missing")}
    site.api.patch(f"{INFERENCE_SERVICES}/{name}", {"spec": {"model": missing, "replicas": {"min": 0}}})
    pods_of(site, name, 0)


def test_a_template_whose_labels_are_not_a_map_is_refused(site: Site) -> None:
    wrong = template() | {"metadata": {"labels": ["mine"]}}
    with pytest.raises(CallRefused, match=r"spec.template.metadata.labels.* must be of type object"):
        serve(site, "any", template=wrong)
    serve(site, "any", template=template() | {"metadata": {"labels": None, "annotations": None}})


def test_a_new_revision_of_the_model_rolls_the_pods(site: Site) -> None:
    uri = site.push()
    model = site.base_model(uri, nodeSelector=GPU)
    before = site.wait_ready("ClusterBaseModel", model)["servingRevision"]
    gated = template()
    gated["spec"]["schedulingGates"] = [{"name": "rig/kubelet"}]  # the rig's kubelet would report them ready at once
    name = serve(site, model, template=gated)
    (old,) = pods_of(site, name)
    run(site, old)
    wait_reason(site, name, "Serving")
    site.push(repo=uri.removeprefix("hf://"))
    site.api.patch(
        f"/apis/ome.io/v1beta1/clusterbasemodels/{model}", {"metadata": {"annotations": {"larder.dev/refresh": "1"}}}
    )
    site.until(lambda: site.status("ClusterBaseModel", model)["servingRevision"] != before, "the new revision")
    new = next(p for p in pods_of(site, name, 2) if p["metadata"]["uid"] != old["metadata"]["uid"])
    after = site.status("ClusterBaseModel", model)["servingRevision"]
    assert snapshot_label(model, after) in new["spec"]["nodeSelector"]
    wait_reason(site, name, "Updating")
    run(site, new)
    site.until(lambda: site.status(KIND, name)["servingRevision"] == after, "the status")
    pods = f"{PODS}?labelSelector={LABEL}={name}"
    site.until(lambda: any("deletionTimestamp" in p["metadata"] for p in site.api.get(pods)["items"])
               or len(site.api.get(pods)["items"]) == 1, "the old pod to be gone")  # fmt: skip


def test_an_autoscaled_number_of_pods_is_kept_and_a_fixed_number_is_enforced(site: Site) -> None:
    name = serve(site, ready_model(site), replicas={"min": 2})
    site.until(lambda: deployment(site, name)["spec"]["replicas"] == 2, "two")
    site.api.patch(f"{DEPLOYMENTS}/{name}/scale", {"spec": {"replicas": 5}})
    site.until(lambda: deployment(site, name)["spec"]["replicas"] == 2, "two again, for the spec says so")
    path = f"{INFERENCE_SERVICES}/{name}"
    site.api.patch(path, {"spec": {"replicas": {"max": 6}}})
    site.until(lambda: site.api.answers(f"{SCALERS}/{name}"), "the autoscaler")
    scaler = site.api.get(f"{SCALERS}/{name}")["spec"]
    assert (scaler["minReplicas"], scaler["maxReplicas"], scaler["scaleTargetRef"]["name"]) == (2, 6, name)
    site.api.patch(f"{DEPLOYMENTS}/{name}/scale", {"spec": {"replicas": 4}})
    site.api.patch(path, {"spec": {"template": template(image="pause:3.9")}})

    def image() -> str:
        found: str = deployment(site, name)["spec"]["template"]["spec"]["containers"][0]["image"]
        return found

    site.until(lambda: image() == "pause:3.9", "the new template")
    assert deployment(site, name)["spec"]["replicas"] == 4
    site.api.patch(path, {"spec": {"replicas": {"max": None, "min": 3}}})
    site.until(lambda: not site.api.answers(f"{SCALERS}/{name}"), "the autoscaler to be gone")
    site.until(lambda: deployment(site, name)["spec"]["replicas"] == 3, "three")


def test_deployment_fields_written_by_others_are_kept(site: Site) -> None:
    name = serve(site, ready_model(site))
    deployment(site, name)
    body = {"spec": {"template": {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "now"}}}}}
    site.api.patch(f"{DEPLOYMENTS}/{name}", body | {"metadata": {"annotations": {"team": "a"}}})
    path = f"{INFERENCE_SERVICES}/{name}"
    site.api.patch(path, {"spec": {"template": template("main")}})
    site.until(lambda: len(deployment(site, name)["spec"]["template"]["spec"]["containers"]) == 1, "one container")
    found = deployment(site, name)
    assert found["metadata"]["annotations"]["team"] == "a"
    assert found["spec"]["template"]["metadata"]["annotations"]["kubectl.kubernetes.io/restartedAt"] == "now"


def test_a_foreign_deployment_is_reported_and_not_touched(site: Site) -> None:
    name = site.name("svc")
    labels = {"app": "other"}
    body = {"metadata": {"name": name}, "spec": {"replicas": 0, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": template()["spec"]}}}  # fmt: skip
    theirs = site.api.create(DEPLOYMENTS, body)
    model = ready_model(site)
    site.create(KIND, name, {"template": template(), "model": {"kind": "ClusterBaseModel", "name": model}})
    conflict = f"Deployment default/{name} exists but does not belong to this InferenceService; delete it"
    assert conflict in wait_reason(site, name, "NameConflict")
    assert site.api.get(f"{DEPLOYMENTS}/{name}")["metadata"]["generation"] == theirs["metadata"]["generation"]
    site.api.delete(f"{DEPLOYMENTS}/{name}")
    pods_of(site, name)


def test_objects_that_the_api_server_refuses_are_reported_and_repaired(site: Site) -> None:
    wrong = template("main")
    wrong["spec"]["restartPolicy"] = "Never"
    name = serve(site, ready_model(site), template=wrong)
    assert "restartPolicy" in wait_reason(site, name, "Refused")
    wrong["spec"]["restartPolicy"] = "Always"
    wrong["spec"]["nonsense"] = {"a": 1}
    path = f"{INFERENCE_SERVICES}/{name}"
    site.api.patch(path, {"spec": {"template": wrong}})
    site.until(lambda: "nonsense" in str(condition(site, name).get("message")), "the field that nobody knows")
    site.api.patch(path, {"spec": {"template": {"spec": {"nonsense": None}}}})
    pods_of(site, name)


def test_everything_that_a_service_created_is_deleted_with_it(site: Site) -> None:
    name = serve(site, ready_model(site), replicas={"min": 1, "max": 2})
    pods_of(site, name)
    site.until(lambda: site.api.answers(f"{SCALERS}/{name}"), "the autoscaler")
    site.delete(KIND, name)
    for path in (DEPLOYMENTS, SERVICES, SCALERS):
        site.until(lambda path=path: not site.api.answers(f"{path}/{name}"), f"{path} to be clean")  # type: ignore[misc]


@pytest.mark.parametrize(
    ("spec", "phrase"),
    [
        ({}, "set exactly one of spec.model and spec.storageUri"),
        ({"model": {"name": "m"}, "storageUri": "hf://a/b"}, "set exactly one of spec.model and spec.storageUri"),
        ({"model": {"name": "m"}, "container": "none"}, "spec.container does not name a container"),
        ({"model": {"name": "m"}, "replicas": {"min": 3, "max": 2}}, "spec.replicas.max is less than"),
        ({"model": {"name": "m"}, "template": {"spec": {"containers": []}}}, "spec.template.spec.containers"),
    ],
)
def test_an_invalid_spec_is_refused_with_the_reason(spec: Json, phrase: str, site: Site) -> None:
    with pytest.raises(CallRefused, match=phrase):
        serve(site, **spec)


MODELS = "/apis/ome.io/v1beta1/namespaces/default/basemodels"


def refused(site: Site, kind: str, name: str) -> str:
    with pytest.raises(CallRefused) as refusal:
        site.delete(kind, name)
    return str(refusal.value)


def test_a_stopped_service_keeps_its_model_until_it_is_deleted(site: Site) -> None:
    model = ready_model(site)
    name = serve(site, model, replicas={"min": 0})
    wait_reason(site, name, "Stopped")
    assert site.api.get(f"{PODS}?labelSelector={LABEL}={name}")["items"] == []
    assert f"is used by 1 InferenceService: default/{name}; delete those first" in refused(
        site, "ClusterBaseModel", model
    )
    delete_unguarded(site, "ClusterBaseModel", model)
    message = site.wait_reason("ClusterBaseModel", model, "InUse")
    assert message == f"still in use by InferenceService default/{name}; delete them, or wait until they end"
    assert "is being deleted" in wait_reason(site, name, "ModelNotReady", "ModelReady")
    site.delete(KIND, name)
    site.until(lambda: site.is_gone("ClusterBaseModel", model), "the model to be gone")


def test_a_model_deleted_without_admission_is_kept_while_a_pod_uses_it(site: Site) -> None:
    model = ready_model(site)
    pod = site.pod(base_model_pod(site.name("pod"), model))["metadata"]["name"]
    delete_unguarded(site, "ClusterBaseModel", model)
    assert f"pod default/{pod}" in site.wait_reason("ClusterBaseModel", model, "InUse")
    site.delete_pod(pod)
    site.until(lambda: site.is_gone("ClusterBaseModel", model), "the model to be gone")


def test_a_model_on_a_claim_is_found_by_its_uri_and_mounted_without_a_selector(site: Site) -> None:
    claim, model = site.name("claim"), site.name("model")
    claims = "/api/v1/namespaces/default/persistentvolumeclaims"
    spec = {"accessModes": ["ReadWriteMany"], "storageClassName": "", "resources": {"requests": {"storage": "1Gi"}}}
    site.api.create(claims, {"metadata": {"name": claim}, "spec": spec | {"volumeName": claim}})
    volume = {"accessModes": ["ReadWriteMany"], "capacity": {"storage": "1Gi"}, "storageClassName": ""}
    where = {"hostPath": {"path": "/nowhere"}, "claimRef": {"namespace": "default", "name": claim}}
    site.api.create("/api/v1/persistentvolumes", {"metadata": {"name": claim}, "spec": volume | where})
    name = serve(site, storageUri=f"pvc://{claim}/models/llama", container="side")
    assert f"no ClusterBaseModel and no BaseModel in namespace default has storageUri pvc://{claim}" in wait_reason(
        site, name, "ModelNotFound"
    )
    uri = {"storage": {"storageUri": f"pvc://{claim}/models/llama"}}
    metadata = {"name": model, "annotations": {"ome.io/skip-config-parsing": "true"}}
    declared = {"apiVersion": "ome.io/v1beta1", "kind": "BaseModel", "metadata": metadata, "spec": uri}
    site.api.create(MODELS, declared)
    (pod,) = pods_of(site, name)
    assert "nodeSelector" not in pod["spec"]
    (main, side) = pod["spec"]["containers"]
    (mount,) = [m for m in side["volumeMounts"] if m["name"] == "larder-model"]
    assert (mount["subPath"], mount["readOnly"]) == ("models/llama", True)
    assert all(m["name"] != "larder-model" for m in main.get("volumeMounts", []))
    users = f"1 InferenceService: default/{name} and 1 pod: default/{pod['metadata']['name']}"
    site.until(lambda: users in refused(site, "BaseModel", model), "admission to know both users")
    site.delete(KIND, name)
    site.until(lambda: not site.api.get(f"{PODS}?labelSelector={LABEL}={name}")["items"], "the pod to be gone")
    site.delete_unused("BaseModel", model)
    site.until(lambda: site.is_gone("BaseModel", model), "the model to be gone")


@pytest.mark.usefixtures("kserve")
def test_a_cache_requested_by_a_kserve_service_is_not_deleted(site: Site) -> None:
    uri = site.upload()
    cache = site.cache(uri)
    site.until(lambda: bool(site.ready_condition("ClusterModelCache", cache)), "the cache to be known")
    name, other = site.name("kserve"), site.name("kserve")
    for service, asks in ((name, "true"), (other, "false")):
        annotations = {"serving.kserve.io/enable-model-cache": asks}
        body = {"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService",
                "metadata": {"name": service, "annotations": annotations},
                "spec": {"predictor": {"model": {"storageUri": f"{uri}/part"}}}}  # fmt: skip
        site.api.create(KSERVE_SERVICES, body)
    message = refused(site, "ClusterModelCache", cache)
    assert f"is used by 1 InferenceService: default/{name}; delete those first" in message
    longer = site.cache(f"{uri}/part")
    site.until(lambda: bool(site.ready_condition("ClusterModelCache", longer)), "the cache without files to be known")
    assert f"default/{name}" in refused(site, "ClusterModelCache", cache), "pods do not get the longer one"
    assert f"default/{name}" in refused(site, "ClusterModelCache", longer)
    site.api.delete(f"{KSERVE_SERVICES}/{name}")
    site.delete("ClusterModelCache", longer)
    site.delete("ClusterModelCache", cache)
    site.until(lambda: site.is_gone("ClusterModelCache", cache), "the cache to be gone")


@pytest.mark.usefixtures("kserve")
def test_a_kserve_service_gets_one_event_for_each_reason_that_its_pods_are_not_cached(site: Site) -> None:
    name, pods = site.name("kserve"), []
    body = {"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService", "metadata": {"name": name}}
    uid = site.api.create(KSERVE_SERVICES, body)["metadata"]["uid"]

    def run(uri: str) -> None:
        pod = kserve_pod(site.name("pod"), uri)
        pod["metadata"]["labels"] = {"serving.kserve.io/inferenceservice": name}
        pods.append(site.pod(pod)["metadata"]["name"])

    def events() -> list[str]:
        found = [e for e in site.events(name) if e["involvedObject"]["uid"] == uid]
        return [e["message"] for e in found if e["reason"] == "ModelNotCached"]

    run("s3://nowhere/a")
    site.until(lambda: len(events()) == 1, "the reason to be reported on the service")
    assert "no ClusterModelCache holds s3://nowhere/a" in events()[0]
    run("s3://nowhere/a")
    run("s3://nowhere/b")
    site.until(lambda: any("s3://nowhere/b" in message for message in events()), "the other reason")
    assert len(events()) == 2
    for pod in pods:
        site.delete_pod(pod)
    site.api.delete(f"{KSERVE_SERVICES}/{name}")


def is_lost(log: str) -> bool:
    """Return whether a controller has noticed that the kind is not ours."""
    lines = (
        json.loads(line) for line in log.splitlines() if '"definition_changed_hands"' in line and line.endswith("}")
    )
    return any((line["kind"], line["ours"]) == (KIND, False) for line in lines)


def test_services_are_ignored_while_their_kind_belongs_to_another_product(site: Site) -> None:
    model = ready_model(site)
    definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/inferenceservices.ome.io"
    part_of = "app.kubernetes.io/part-of"
    site.api.patch(definition, {"metadata": {"labels": {part_of: None}}})
    try:
        site.until(lambda: all(is_lost(c.log.read_text()) for c in site.cluster.controllers), "the news")
        spec = {"template": template(), "model": {"name": model}}
        name = site.create(KIND, site.name("svc"), spec, annotations={"larder.dev/managed": "true"})
        ready_model(site)  # what takes longer than a turn of a service
        assert site.status(KIND, name) == {}
        assert not site.api.answers(f"{SERVICES}/{name}")
    finally:
        site.api.patch(definition, {"metadata": {"labels": {part_of: "larder"}}})
    site.until(lambda: site.api.answers(f"{DEPLOYMENTS}/{name}"), "the Deployment, once the kind is ours")
