"""Models (`models.example.com`) under faults, and the unchanged examples of their specification."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from rig.larder.site import Site
from shared.download_report import DownloadReport
from shared.json_object import Json
from tests.integration.system.download_pods import (
    CLAIMS,
    CLASS,
    JOBS,
    PODS,
    claims_in,
    jobs_in,
    report,
    volume_for,
    wait_model_phase,
)

KIND, GROUP = "Model", "/apis/models.example.com/v1alpha1"
NODES = "/api/v1/nodes"
EXAMPLES = Path(__file__).parent / "model_operator"
DONE = DownloadReport(revision="abc")
pytestmark = pytest.mark.usefixtures("storage_class")


@pytest.fixture
def namespace(site: Site) -> Iterator[str]:
    """A namespace of this test."""
    name = site.name("team")
    site.api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    site.until(lambda: site.api.answers(f"/api/v1/namespaces/{name}/serviceaccounts/default"), "the account")
    yield name
    site.api.delete(f"/api/v1/namespaces/{name}")


def declare(site: Site, namespace: str = "default", **spec: object) -> str:
    fields = {
        "source": {"huggingFace": {"repoId": "org/model"}},
        "storage": {"storageClass": CLASS, "size": "1Gi"},
        **spec,
    }
    name = site.name("mdl")
    site.api.create(f"{GROUP}/namespaces/{namespace}/models", {"metadata": {"name": name}, "spec": fields} | TYPE)
    return name


TYPE: Json = {"apiVersion": "models.example.com/v1alpha1", "kind": KIND}


def named(site: Site, collection: str, name: str) -> list[Json]:
    found: list[Json] = site.api.get(f"{collection}?fieldSelector=metadata.name={name}")["items"]
    return found


def wait_job(site: Site, model: str, namespace: str = "default") -> Json:
    """Wait for the download Job of a Model, and return it."""
    found: list[Json] = []

    def is_there() -> bool:
        found[:] = named(site, jobs_in(namespace), f"model-download-{model}")
        return bool(found)

    site.until(is_there, f"a Job for {model}")
    return found[0]


def test_the_example_model_and_deployment_of_the_specification_work(site: Site) -> None:
    """The Model and the Deployment of the specification, and the pod that it expects."""
    model: Json = yaml.safe_load((EXAMPLES / "model.yaml").read_text())
    name = model["metadata"]["name"]
    site.api.create(f"{GROUP}/namespaces/default/models", model)
    job = wait_job(site, name)
    wait_model_phase(site, name, "Downloading")
    volume_for(site, f"model-{name}", storage_class="longhorn", size="20Gi")
    report(site, job, "Succeeded", DONE)
    status = wait_model_phase(site, name, "Ready")
    assert (status["pvcName"], status["progress"]) == (f"model-{name}", 100)

    deployment: Json = yaml.safe_load((EXAMPLES / "deployment.yaml").read_text())
    deployment["spec"]["selector"] = {"matchLabels": {"app": "vllm"}}  # required, but missing in the specification
    deployment["spec"]["template"]["metadata"]["labels"] = {"app": "vllm"}
    site.api.create("/apis/apps/v1/namespaces/default/deployments", deployment)
    site.until(lambda: bool(site.api.get(f"{PODS}?labelSelector=app=vllm")["items"]), "the pod")
    (pod,) = site.api.get(f"{PODS}?labelSelector=app=vllm")["items"]
    wanted: Json = yaml.safe_load((EXAMPLES / "pod.yaml").read_text())["spec"]
    (container,), (expected,) = pod["spec"]["containers"], wanted["containers"]
    assert container["env"] == expected["env"]
    assert expected["volumeMounts"][0] in container["volumeMounts"]
    assert wanted["volumes"][0] in pod["spec"]["volumes"]
    site.api.delete("/apis/apps/v1/namespaces/default/deployments/vllm-server?propagationPolicy=Background")
    site.until(lambda: not site.api.get(f"{PODS}?labelSelector=app=vllm")["items"], "the pod to be gone")
    site.delete_unused(KIND, name)


def test_a_download_whose_pod_is_evicted_continues_in_another(site: Site) -> None:
    model = declare(site)
    job = wait_job(site, model)
    volume_for(site, f"model-{model}")
    for reason in ("Evicted", "NodeLost"):
        (pod,) = running(site, job)
        disrupted = {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"}
        message = "The node was low on resource: memory."
        end(site, pod, {"reason": reason, "message": message, "conditions": [disrupted]})
    site.until(lambda: bool(running(site, job)), "a third pod")
    assert site.status(KIND, model)["phase"] == "Downloading"
    report(site, job, "Succeeded", DONE)
    wait_model_phase(site, model, "Ready")
    site.delete(KIND, model)


def test_a_download_that_runs_out_of_memory_is_reported_and_fails_once_its_job_gives_up(site: Site) -> None:
    model = declare(site)
    job = wait_job(site, model)
    volume_for(site, f"model-{model}")
    run_out_of_memory(site, job)
    again = "exceeded the Job's memory limit of 2Gi; another pod continues soon"
    site.until(lambda: again in site.status(KIND, model).get("message", ""), "the first attempt to be reported")
    assert site.status(KIND, model)["phase"] == "Downloading"
    site.api.patch(f"{JOBS}/{job['metadata']['name']}", {"spec": {"backoffLimit": 1}})  # 3 takes a minute longer
    run_out_of_memory(site, job)
    failed = wait_model_phase(site, model, "Failed")
    (ready,) = (c for c in failed["conditions"] if c["type"] == "Ready")
    assert ready["reason"] == "OutOfMemory"
    assert "the Job's memory limit of 2Gi; delete Job model-download-" in failed["message"]
    site.delete(KIND, model)


def end(site: Site, pod: Json, status: Json) -> None:
    """Report that a pod has failed, as its kubelet would."""
    site.api.patch(f"{PODS}/{pod['metadata']['name']}/status", {"status": {"phase": "Failed"} | status})


def run_out_of_memory(site: Site, job: Json) -> None:
    """Report that the running pod of a Job ran out of memory, as its kubelet would."""
    (pod,) = running(site, job)
    killed = {"terminated": {"exitCode": 137, "reason": "OOMKilled", "startedAt": None, "finishedAt": None}}
    container = {"name": "downloader", "image": "i", "imageID": "", "ready": False, "restartCount": 0, "state": killed}
    end(site, pod, {"containerStatuses": [container]})


def running(site: Site, job: Json) -> list[Json]:
    """Wait until a pod of a Job runs, and return the pods that have not ended and are not being deleted."""
    found: list[Json] = []

    def is_there() -> bool:
        pods = site.api.get(f"{PODS}?labelSelector=batch.kubernetes.io/job-name={job['metadata']['name']}")["items"]
        stay = (pod for pod in pods if "deletionTimestamp" not in pod["metadata"])
        found[:] = [pod for pod in stay if pod["status"].get("phase") == "Running"]
        return bool(found)

    site.until(is_there, "a pod to run")
    return found


def test_a_namespace_may_be_deleted_during_a_download(site: Site, namespace: str) -> None:
    model = declare(site, namespace)
    wait_job(site, model, namespace)
    volume_for(site, f"model-{model}", namespace)
    site.api.delete(f"/api/v1/namespaces/{namespace}")
    site.until(lambda: not site.api.answers(f"/api/v1/namespaces/{namespace}"), "the namespace to be gone")
    other = declare(site)
    wait_job(site, other)  # no finalizer blocks the deletion
    site.delete(KIND, other)


def test_models_deleted_while_they_are_queued_get_no_claim(site: Site, namespace: str) -> None:
    models = [declare(site, namespace) for _ in range(30)]  # five claims a second, after the first ten
    path = f"{GROUP}/namespaces/{namespace}/models"
    for model in models[10:]:
        site.api.delete(f"{path}/{model}")
    site.until(lambda: {c["metadata"]["name"] for c in site.api.get(claims_in(namespace))["items"]}
               == {f"model-{model}" for model in models[:10]}, "the claims of the others alone")  # fmt: skip
    last = declare(site, namespace)
    wait_job(site, last, namespace)  # is served after whatever was left in the queue
    claims = {claim["metadata"]["name"] for claim in site.api.get(claims_in(namespace))["items"]}
    assert claims == {f"model-{model}" for model in [*models[:10], last]}


def test_a_download_whose_pod_was_lost_with_its_node_continues_in_another(site: Site) -> None:
    model = declare(site)
    job = wait_job(site, model)
    volume_for(site, f"model-{model}")
    (pod,) = running(site, job)
    site.api.delete(f"{PODS}/{pod['metadata']['name']}", grace_s=0)  # as the collector of pods does with a node's
    site.until(lambda: [p["metadata"]["uid"] for p in running(site, job)] != [pod["metadata"]["uid"]], "another pod")
    assert named(site, CLAIMS, f"model-{model}")
    report(site, job, "Succeeded", DONE)
    wait_model_phase(site, model, "Ready")
    site.delete(KIND, model)
