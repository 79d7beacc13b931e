"""Models on claims in the namespace `claims`: real claims, volumes, Jobs and pods; tests act as the kubelet."""

from datetime import UTC, datetime

import pytest

from controller.claims.job import MODEL_ANNOTATION
from rig.errors import CallRefused
from rig.larder.site import Site
from rig.pods import base_model_pod
from shared.api.core import pods_in
from shared.json_object import Json
from shared.metadata.model_metadata import Metadata
from shared.metadata.reading.termination_message import Reading, encode_reading

NAMESPACE = "claims"
CLAIMS = f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
JOBS = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
LLAMA = Metadata(model_type="llama", architectures=("LlamaForCausalLM",), format="gguf", parameters=7 * 10**9,
                 context_length=8192, capabilities=("TEXT_TO_TEXT",), size_bytes=5)  # fmt: skip


def claim(site: Site, *modes: str, bound: bool = True, storage_class: str = "") -> str:
    """Create a claim, and its volume if it should be bound; return its name."""
    name = site.name("claim")
    spec: Json = {
        "accessModes": list(modes or ("ReadWriteMany",)),
        "storageClassName": storage_class,
        "resources": {"requests": {"storage": "1Gi"}},
    }
    if not storage_class:
        spec["volumeName"] = name
    site.api.create(CLAIMS, {"metadata": {"name": name}, "spec": spec})
    if bound:
        volume(site, name, *modes)
        site.until(lambda: phase(site, name) == "Bound", "the claim to be bound")
    return name


def volume(site: Site, name: str, *modes: str, **fields: object) -> None:
    spec = {
        "accessModes": list(modes or ("ReadWriteMany",)),
        "capacity": {"storage": "1Gi"},
        "storageClassName": "",
        "hostPath": {"path": f"/nowhere/{name}"},
        "claimRef": {"namespace": NAMESPACE, "name": name},
    }
    site.api.create(VOLUMES, {"metadata": {"name": name}, "spec": spec | fields})


def on_unbound_claim(site: Site) -> tuple[str, str, Json]:
    """Create a model on a claim that waits for its first consumer; return the names of claim and model, and the Job."""
    storage_class = site.name("class")
    body = {"metadata": {"name": storage_class}, "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": "WaitForFirstConsumer"}  # fmt: skip
    site.api.create("/apis/storage.k8s.io/v1/storageclasses", body)
    name = claim(site, bound=False, storage_class=storage_class)
    model = on(site, name)
    return name, model, new_job(site, model)


def volume_for(site: Site, name: str) -> None:
    """Create a volume of a waiting claim's class, and wait until a pod has bound the claim."""
    storage_class = site.api.get(f"{CLAIMS}/{name}")["spec"]["storageClassName"]
    spec = {"accessModes": ["ReadWriteMany"], "capacity": {"storage": "1Gi"}, "storageClassName": storage_class,
            "hostPath": {"path": "/nowhere"}}  # fmt: skip
    site.api.create(VOLUMES, {"metadata": {"name": site.name("pv")}, "spec": spec})
    site.until(lambda: phase(site, name) == "Bound", "a pod to bind the claim")


def phase(site: Site, name: str) -> str:
    return str(site.api.get(f"{CLAIMS}/{name}")["status"].get("phase", ""))


def on(site: Site, name: str, path: str = "models/llama") -> str:
    return site.base_model(f"pvc://{NAMESPACE}/{name}/{path}")


def jobs_of(site: Site, model: str) -> list[Json]:
    text = f"ClusterBaseModel//{model}"
    found = site.api.get(JOBS)["items"]
    return [job for job in found if job["metadata"]["annotations"].get(MODEL_ANNOTATION) == text]


def job_pod(site: Site, job: Json) -> Json:
    """Return a Job's pod once it exists."""
    pods = pods_in(job["metadata"]["namespace"])
    query = f"{pods}?labelSelector=batch.kubernetes.io/job-name={job['metadata']['name']}"
    site.until(lambda: bool(site.api.get(query)["items"]), "the Job's pod")
    pod: Json = site.api.get(query)["items"][0]
    return pod


def new_job(site: Site, model: str, but: tuple[str, ...] = ()) -> Json:
    """Wait for a Job of a model that is not in `but`, and return it."""
    found: list[Json] = []

    def there() -> bool:
        found[:] = [job for job in jobs_of(site, model) if job["metadata"]["name"] not in but]
        return bool(found)

    site.until(there, f"a Job for {model}")
    return found[0]


def report(site: Site, pod: Json, phase: str, state: Json) -> None:
    """Write a pod's status as its kubelet would, after the rig's own kubelet has written its status."""
    path = f"{pods_in(pod['metadata']['namespace'])}/{pod['metadata']['name']}"
    site.until(lambda: site.api.get(path)["status"].get("phase") == "Running", "the pod to run on a node")
    status = {"name": "extract", "image": "i", "imageID": "", "ready": False, "restartCount": 0, "state": state}
    site.api.patch(f"{path}/status", {"status": {"phase": phase, "containerStatuses": [status]}})


def hand_in(site: Site, job: Json, reading: Reading) -> None:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    ended = {"exitCode": 0, "reason": "Completed", "message": encode_reading(reading).decode(), "finishedAt": now}
    report(site, job_pod(site, job), "Succeeded", {"terminated": ended | {"startedAt": now}})


def end_job(site: Site, model: str) -> None:
    """Delete a model's Job with its pods, as at the end of its TTL."""
    for job in jobs_of(site, model):
        site.api.delete(f"{JOBS}/{job['metadata']['name']}?propagationPolicy=Background")
    site.until(lambda: jobs_of(site, model) == [], "the Job to be gone")


def spec_of(site: Site, model: str) -> Json:
    found: Json = site.get("ClusterBaseModel", model)["spec"]
    return found


def change(site: Site, model: str, body: Json) -> None:
    site.api.patch(f"/apis/ome.io/v1beta1/clusterbasemodels/{model}", body)


def wait_reconciled(site: Site, model: str) -> None:
    """Wait until the controller has reconciled the model once more."""
    change(site, model, {"spec": {"displayName": site.name()}})
    site.wait_ready("ClusterBaseModel", model)


def ready_model(site: Site, name: str) -> str:
    model = on(site, name)
    hand_in(site, new_job(site, model), Reading(metadata=LLAMA))
    site.wait_ready("ClusterBaseModel", model)
    return model


def until_refused(site: Site, model: str, phrase: str) -> None:
    """Wait until the replica that serves admission refuses pods of the model with this phrase; its cache may lag."""

    def says_so() -> bool:
        with pytest.raises(CallRefused) as refusal:
            site.api.create(PODS, base_model_pod("early", model))
        return phrase in str(refusal.value)

    site.until(says_so, f"pods of {model} to be refused: {phrase}")


def admitted(site: Site, model: str, namespace: str = NAMESPACE) -> Json:
    """Create a pod once the replica that serves admission knows that the model was read, and return it."""
    made: list[Json] = []

    def is_made() -> bool:
        try:
            made.append(site.api.create(pods_in(namespace), restricted(base_model_pod(site.name("pod"), model))))
        except CallRefused as refusal:
            if "cannot be used" not in str(refusal):
                raise
        return bool(made)

    site.until(is_made, "the pod to be admitted")
    return made[0]


def restricted(pod: Json) -> Json:
    pod["spec"]["securityContext"] = {
        "runAsNonRoot": True,
        "runAsUser": 1000,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    for container in pod["spec"]["containers"]:
        container["securityContext"] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    return pod
