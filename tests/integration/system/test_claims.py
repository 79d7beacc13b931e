"""Models on claims, with real claims, volumes, Jobs and pods; the test acts as the kubelet of the Jobs' pods."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from controller.claims.job import MODEL_ANNOTATION
from controller.inferenceservices.deployment import SERVICE_LABEL
from controller.jobs.observed_jobs import JOB_NAME_LABEL
from rig.binaries import Binaries
from rig.errors import CallRefused
from rig.larder.objects import open_to_services
from rig.larder.site import Site
from rig.pods import base_model_pod, plain_pod
from shared.json_object import Json
from shared.metadata.model_metadata import Metadata
from shared.metadata.reading.termination_message import Reading
from shared.names import uses_label
from tests.integration.system.claims import (
    CLAIMS,
    JOBS,
    LLAMA,
    NAMESPACE,
    PODS,
    VOLUMES,
    admitted,
    change,
    claim,
    end_job,
    hand_in,
    job_pod,
    jobs_of,
    new_job,
    on,
    on_unbound_claim,
    ready_model,
    report,
    restricted,
    spec_of,
    until_refused,
    volume,
    volume_for,
    wait_reconciled,
)
from tests.integration.system.sites import opened

SERVICES = f"/apis/ome.io/v1beta1/namespaces/{NAMESPACE}/inferenceservices"
MISSING = Reading(found=False, reason="PathNotFound", message="there is no 'models/llama' on the claim")
STRATEGIC = "application/strategic-merge-patch+json"
pytestmark = pytest.mark.usefixtures("claims_namespace")


def test_a_model_on_a_missing_claim_becomes_ready_once_the_claim_is_bound_and_read(site: Site) -> None:
    name = site.name("claim")
    model = on(site, name)
    reported = site.wait_reason("ClusterBaseModel", model, "PVCNotFound")
    assert reported.startswith(f"PVC {name} not found in namespace {NAMESPACE}")
    wanted = {"accessModes": ["ReadWriteMany"], "storageClassName": "", "volumeName": name,
              "resources": {"requests": {"storage": "1Gi"}}}  # fmt: skip
    site.api.create(CLAIMS, {"metadata": {"name": name}, "spec": wanted})
    reported = site.wait_reason("ClusterBaseModel", model, "PVCNotBound")
    assert reported.startswith(f"PVC {name} not bound (phase: Pending)")
    assert jobs_of(site, model) == []
    volume(site, name)
    job = new_job(site, model)
    site.wait_reason("ClusterBaseModel", model, "Reading")
    hand_in(site, job, Reading(metadata=LLAMA))
    status = site.wait_ready("ClusterBaseModel", model)
    assert status["metadata"]["values"]["parameters"] == 7 * 10**9
    assert status["size"] == 5
    spec = spec_of(site, model)
    assert (spec["modelType"], spec["modelParameterSize"], spec["maxTokens"]) == ("llama", "7B", 8192)
    assert spec["modelFormat"] == {"name": "safetensors"}, "fields that the user set are kept"


def test_a_model_is_read_once_and_only_a_refresh_reads_it_again(site: Site) -> None:
    model = ready_model(site, claim(site))
    end_job(site, model)
    for program in site.cluster.controllers:
        program.process.kill()
        program.start()
    site.cluster.aim_webhooks(site.cluster.controllers[0])
    wait_reconciled(site, model)
    assert jobs_of(site, model) == []
    change(site, model, {"metadata": {"annotations": {"larder.dev/refresh": "1"}}})
    again = new_job(site, model)
    assert site.ready_condition("ClusterBaseModel", model)["status"] == "True", "the model stays usable meanwhile"
    hand_in(site, again, Reading(metadata=Metadata(model_type="qwen2", format="gguf")))
    site.until(lambda: spec_of(site, model).get("modelType") == "qwen2", "what was read before to follow")
    assert "maxTokens" not in spec_of(site, model)
    site.until(lambda: site.status("ClusterBaseModel", model).get("refreshed") == "1", "the answer")


def test_a_missing_path_is_reported_before_a_pod_mounts_it(site: Site) -> None:
    model = on(site, claim(site))
    job = new_job(site, model)
    until_refused(site, model, "Reading")
    hand_in(site, job, MISSING)
    assert "models/llama" in site.wait_reason("ClusterBaseModel", model, "PathNotFound")
    assert site.status("ClusterBaseModel", model)["state"] == "Failed"
    until_refused(site, model, "PathNotFound: there is no 'models/llama' on the claim")
    change(site, model, {"metadata": {"annotations": {"larder.dev/refresh": "copied"}}})
    hand_in(site, new_job(site, model, (job["metadata"]["name"],)), Reading(metadata=LLAMA))
    site.wait_ready("ClusterBaseModel", model)


def test_only_pods_in_the_namespace_of_the_claim_get_it(site: Site) -> None:
    name = claim(site)
    model = ready_model(site, name)
    made = admitted(site, model)
    assert made["spec"]["volumes"][0]["persistentVolumeClaim"] == {"claimName": name, "readOnly": True}
    mount = made["spec"]["containers"][0]["volumeMounts"][0]
    assert (mount["mountPath"], mount["subPath"], mount["readOnly"]) == ("/opt/ml/model", "models/llama", True)
    assert made["spec"]["containers"][0]["env"] == [{"name": "MODEL_PATH", "value": "/opt/ml/model"}]
    assert "nodeSelector" not in made["spec"]
    assert made["metadata"]["labels"][uses_label(model)] == "true"
    with pytest.raises(CallRefused, match=f"namespace '{NAMESPACE}'"):
        site.pod(base_model_pod("elsewhere", model))


def test_a_claim_that_is_lost_or_deleted_is_reported(site: Site) -> None:
    name = claim(site)
    model = ready_model(site, name)
    site.api.delete(f"{VOLUMES}/{name}")
    site.api.patch(f"{VOLUMES}/{name}", {"metadata": {"finalizers": None}})
    assert "(phase: Lost)" in site.wait_reason("ClusterBaseModel", model, "PVCLost")
    assert site.status("ClusterBaseModel", model)["state"] == "Failed"
    site.api.delete(f"{CLAIMS}/{name}")
    end_job(site, model)  # its pod keeps the claim from being deleted
    site.wait_reason("ClusterBaseModel", model, "PVCNotFound")
    site.api.create(CLAIMS, {"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteMany"],
                    "storageClassName": "", "volumeName": f"{name}-2",
                    "resources": {"requests": {"storage": "1Gi"}}}})  # fmt: skip
    site.wait_reason("ClusterBaseModel", model, "PVCNotBound")
    body = {"accessModes": ["ReadWriteMany"], "capacity": {"storage": "1Gi"}, "storageClassName": "",
            "hostPath": {"path": "/nowhere"}, "claimRef": {"namespace": NAMESPACE, "name": name}}  # fmt: skip
    site.api.create(VOLUMES, {"metadata": {"name": f"{name}-2"}, "spec": body})
    hand_in(site, new_job(site, model), Reading(metadata=LLAMA))  # another claim is another model
    site.wait_ready("ClusterBaseModel", model)


def test_the_job_is_the_first_consumer_of_a_wait_for_first_consumer_claim(site: Site) -> None:
    name, model, job = on_unbound_claim(site)
    assert "its storage class waits for" in site.wait_reason("ClusterBaseModel", model, "WaitForFirstConsumer")
    assert site.status("ClusterBaseModel", model)["state"] == "In_Transit"
    volume_for(site, name)
    hand_in(site, job, Reading(metadata=LLAMA))
    site.wait_ready("ClusterBaseModel", model)


def holder(site: Site, name: str, node: str, job: str = "") -> str:
    """Create a pod, with or without a Job, that uses a claim on a node, and return its name."""
    pod = restricted(plain_pod(site.name("holder")))
    pod["metadata"]["labels"] = {JOB_NAME_LABEL: job} if job else {}
    pod["spec"] |= {"nodeName": node, "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]}
    return str(site.api.create(PODS, pod)["metadata"]["name"])


def test_a_read_write_once_pod_claim_is_read_after_the_pod_that_uses_it_is_gone(site: Site) -> None:
    name = claim(site, "ReadWriteOncePod")
    pod = holder(site, name, "a")
    model = on(site, name)
    assert f"in use by pod {pod}" in site.wait_reason("ClusterBaseModel", model, "ClaimInUse")
    assert jobs_of(site, model) == []
    site.api.delete(f"{PODS}/{pod}", grace_s=0)
    hand_in(site, new_job(site, model), Reading(metadata=LLAMA))
    site.wait_ready("ClusterBaseModel", model)


@pytest.mark.parametrize("job", ["", "training"])
def test_the_job_for_a_read_write_once_claim_runs_on_the_node_of_its_volume(site: Site, job: str) -> None:
    name = claim(site, "ReadWriteOnce")
    holder(site, name, "b", job)
    model = on(site, name)
    pod = job_pod(site, new_job(site, model))["metadata"]["name"]
    site.until(
        lambda: site.api.get(f"{PODS}/{pod}")["spec"].get("nodeName") == "b", "the pod to be where the volume is"
    )


def serve(site: Site, model: str, replicas: int, **pod_spec: object) -> str:
    """Declare a service in the namespace and return its name."""
    name, pod = site.name("svc"), restricted(plain_pod("any"))
    body = {"apiVersion": "ome.io/v1beta1", "kind": "InferenceService", "metadata": {"name": name}}
    spec = {"model": {"name": model}, "replicas": {"min": replicas}, "template": {"spec": pod["spec"] | pod_spec}}
    site.api.create(SERVICES, body | {"spec": spec})
    return name


def serving_pods(site: Site, service: str, count: int) -> list[Json]:
    """Return a service's pods once there are this many."""
    query = f"{PODS}?labelSelector={SERVICE_LABEL}={service}"
    site.until(lambda: len(site.api.get(query)["items"]) == count, f"{count} pods of {service}")
    found: list[Json] = site.api.get(query)["items"]
    return found


def report_state(site: Site, pod: str, phase: str, **conditions: str) -> None:
    """Set phase and conditions of a pod, as its kubelet would."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    reported = [{"type": kind, "status": status, "lastTransitionTime": now} for kind, status in conditions.items()]
    site.api.patch(f"{PODS}/{pod}/status", {"status": {"phase": phase, "conditions": reported}}, STRATEGIC)


def wait_service(site: Site, name: str, reason: str) -> str:
    """Wait for a service's reason and return its message."""

    def ready() -> Json:
        conditions = site.api.get(f"{SERVICES}/{name}").get("status", {}).get("conditions", [])
        return next((c for c in conditions if c["type"] == "Ready"), {})

    site.until(lambda: ready().get("reason") == reason, f"{name} to report {reason}")
    return str(ready()["message"])


@pytest.fixture
def _no_services(site: Site) -> Iterator[None]:
    yield
    for found in site.api.get(SERVICES)["items"]:
        site.api.delete(f"{SERVICES}/{found['metadata']['name']}")


@pytest.mark.usefixtures("_no_services")
def test_a_pod_that_waits_for_a_claim_of_one_pod_is_reported_until_it_runs(site: Site) -> None:
    name = claim(site, "ReadWriteOncePod")
    model = ready_model(site, name)
    service = serve(site, model, 2)
    pods = {p["metadata"]["name"] for p in serving_pods(site, service, 2)}
    held = wait_service(site, service, "ClaimInUse")
    (first,) = [pod for pod in pods if site.api.get(f"{PODS}/{pod}")["spec"].get("nodeName")]
    (waiting,) = pods - {first}
    phrase = f"pod {waiting} waits: PVC {name} is ReadWriteOncePod and in use by pod {first} on node "
    assert phrase in held
    assert "{type: Recreate}" in held
    assert site.wait_reason("ClusterBaseModel", model, "ClaimInUse").startswith(phrase)
    assert site.ready_condition("ClusterBaseModel", model)["status"] == "True", "the pod with the claim keeps running"
    site.api.patch(f"{SERVICES}/{service}", {"spec": {"replicas": {"min": 1}}})
    wait_service(site, service, "Serving")
    site.wait_reason("ClusterBaseModel", model, "OnClaim")


@pytest.fixture
def machine(site: Site) -> Iterator[str]:
    """A Node without any kubelet: the test writes the status of its pods."""
    name = site.name("machine")
    site.api.create("/api/v1/nodes", {"metadata": {"name": name}})
    yield name
    site.api.delete(f"/api/v1/nodes/{name}")


@pytest.mark.usefixtures("_no_services")
def test_a_pod_blocked_by_a_claim_in_use_on_another_node_is_reported_until_it_runs(site: Site, machine: str) -> None:
    name = claim(site, "ReadWriteOnce")
    model = ready_model(site, name)
    other = holder(site, name, "a")
    service = serve(site, model, 1, nodeName=machine)
    (pod,) = [p["metadata"]["name"] for p in serving_pods(site, service, 1)]
    report_state(site, pod, "Pending", PodReadyToStartContainers="False", Ready="False")
    phrase = f"pod {pod} on node {machine} waits: PVC {name} is ReadWriteOnce and in use by pod {other} on node a"
    assert f"{phrase}; it starts when that pod ends" in wait_service(site, service, "ClaimInUse")
    assert site.wait_reason("ClusterBaseModel", model, "ClaimInUse").startswith(phrase)
    site.api.delete(f"{PODS}/{other}", grace_s=0)
    report_state(site, pod, "Running", PodReadyToStartContainers="True", Ready="True")
    wait_service(site, service, "Serving")
    site.wait_reason("ClusterBaseModel", model, "OnClaim")


def test_an_image_that_is_not_pulled_is_reported_and_clears(site: Site) -> None:
    model = on(site, claim(site))
    job = new_job(site, model)
    waiting = {"reason": "ImagePullBackOff", "message": "no such image"}
    report(site, job_pod(site, job), "Running", {"waiting": waiting})
    assert "no such image" in site.wait_reason("ClusterBaseModel", model, "ImageNotPulled")
    hand_in(site, job, Reading(metadata=LLAMA))
    site.wait_ready("ClusterBaseModel", model)


def test_an_invalid_result_of_the_job_is_reported_and_not_used(site: Site) -> None:
    model = on(site, claim(site))
    job = new_job(site, model)
    forged = {"exitCode": 0, "reason": "Completed", "message": '{"metadata": {"modelType": "' + "x" * 500 + '"}}'}
    report(site, job_pod(site, job), "Succeeded", {"terminated": forged})
    site.wait_ready("ClusterBaseModel", model)
    (reported,) = (c for c in site.status("ClusterBaseModel", model)["conditions"] if c["type"] == "Metadata")
    assert (reported["status"], reported["reason"]) == ("False", "ResultMalformed")
    assert "modelType" not in spec_of(site, model)


def may_make_jobs(site: Site) -> bool:
    """Return whether the API server lets the controller create Jobs: it notices a changed role after a delay."""
    user = "system:serviceaccount:larder-system:larder-controller"
    what = {"group": "batch", "resource": "jobs", "verb": "create", "namespace": NAMESPACE}
    review = {"spec": {"user": user, "resourceAttributes": what}}
    found = site.api.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(found["status"]["allowed"])


def test_a_missing_permission_is_reported_and_clears(site: Site) -> None:
    role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/larder-controller"
    rules = site.api.get(role)["rules"]
    site.api.patch(role, {"rules": [r for r in rules if r["apiGroups"] != ["batch"]]})
    try:
        site.until(lambda: not may_make_jobs(site), "the right to be gone")
        model = on(site, claim(site))
        site.wait_reason("ClusterBaseModel", model, "NotPermitted")
        until_refused(site, model, "NotPermitted")
    finally:
        site.api.patch(role, {"rules": rules})
    site.until(lambda: may_make_jobs(site), "the right to be back")
    change(site, model, {"spec": {"displayName": "again"}})  # without this, the next attempt comes in minutes
    hand_in(site, new_job(site, model), Reading(metadata=LLAMA))
    site.wait_ready("ClusterBaseModel", model)


def test_the_job_is_deleted_with_its_model(site: Site) -> None:
    model = on(site, claim(site))
    new_job(site, model)
    site.delete("ClusterBaseModel", model)
    site.until(lambda: jobs_of(site, model) == [], "the Job to be gone")


def test_a_namespaced_model_may_only_use_a_claim_of_its_own_namespace(site: Site) -> None:
    name, model = claim(site), site.name("own")
    path = f"/apis/ome.io/v1beta1/namespaces/{NAMESPACE}/basemodels"
    body = {"apiVersion": "ome.io/v1beta1", "kind": "BaseModel", "metadata": {"name": model},
            "spec": {"storage": {"storageUri": f"pvc://{name}/models/llama"}}}  # fmt: skip
    site.api.create(path, body)
    mine = f"BaseModel/{NAMESPACE}/{model}"

    def there() -> list[Json]:
        return [j for j in site.api.get(JOBS)["items"] if j["metadata"]["annotations"][MODEL_ANNOTATION] == mine]

    site.until(lambda: bool(there()), "its Job")
    hand_in(site, there()[0], Reading(metadata=LLAMA))
    site.until(lambda: site.api.get(f"{path}/{model}").get("status", {}).get("state") == "Ready", "the model")
    with pytest.raises(CallRefused, match="write pvc://CLAIM/SUB-PATH"):
        site.api.create(path, body | {"spec": {"storage": {"storageUri": f"pvc://{NAMESPACE}:{name}/x"}}})


@pytest.fixture(scope="module")
def strict(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A separate cluster, where ClusterBaseModels may use only claims of labelled namespaces."""
    settings = {"LARDER_CLAIMS_REQUIRE_NAMESPACE_LABEL": "true"}
    with opened(binaries, tmp_path_factory.mktemp("strict"), settings, {"a": {}}, replicas=1) as strict:
        strict.api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        open_to_services(strict.api, NAMESPACE)
        yield strict


def test_cluster_models_need_a_labelled_namespace_if_the_chart_requires_it(strict: Site) -> None:
    name = claim(strict)
    model = on(strict, name)
    refused = strict.wait_reason("ClusterBaseModel", model, "NamespaceNotAllowed")
    assert f"label namespace {NAMESPACE} larder.dev/allow-cluster-models=true" in refused
    assert strict.status("ClusterBaseModel", model)["state"] == "Failed"
    until_refused(strict, model, "NamespaceNotAllowed")
    service = serve(strict, model, 1)
    assert "larder.dev/allow-cluster-models=true" in wait_service(strict, service, "NamespaceNotAllowed")
    own = strict.name("own")
    body = {"apiVersion": "ome.io/v1beta1", "kind": "BaseModel", "metadata": {"name": own},
            "spec": {"storage": {"storageUri": f"pvc://{name}/models/llama"}}}  # fmt: skip
    strict.api.create(f"/apis/ome.io/v1beta1/namespaces/{NAMESPACE}/basemodels", body)
    strict.until(lambda: bool(strict.api.get(JOBS)["items"]), "the Job of the namespace's own model")
    assert jobs_of(strict, model) == []

    label(strict, "true")
    hand_in(strict, new_job(strict, model), Reading(metadata=LLAMA))
    strict.wait_ready("ClusterBaseModel", model)
    serving_pods(strict, service, 1)

    label(strict, "no")
    change(strict, model, {"spec": {"displayName": "again"}})  # otherwise, it is noticed within half a minute
    strict.wait_reason("ClusterBaseModel", model, "NamespaceNotAllowed")


def label(site: Site, value: str) -> None:
    labels = {"metadata": {"labels": {"larder.dev/allow-cluster-models": value}}}
    site.api.patch(f"/api/v1/namespaces/{NAMESPACE}", labels)
