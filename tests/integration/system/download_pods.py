"""Acts as the storage and the kubelet of download Jobs, which these tests do not have."""

from datetime import UTC, datetime

from rig.larder.site import Site
from shared.download_report import DownloadReport, encode_report
from shared.json_object import Json

NAMESPACE = "default"
CLAIMS = f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
JOBS = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
CLASSES, CLASS = "/apis/storage.k8s.io/v1/storageclasses", "by-hand"


def claims_in(namespace: str) -> str:
    """Return the path of a namespace's claims."""
    return f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"


def jobs_in(namespace: str) -> str:
    """Return the path of a namespace's Jobs."""
    return f"/apis/batch/v1/namespaces/{namespace}/jobs"


def volume_for(
    site: Site, claim: str, namespace: str = NAMESPACE, storage_class: str = CLASS, size: str = "1Gi"
) -> str:
    """Create a volume that fits a claim, and return its name once they are bound."""
    spec = {
        "accessModes": ["ReadWriteOnce"], "capacity": {"storage": size}, "storageClassName": storage_class,
        "hostPath": {"path": "/nowhere"}, "claimRef": {"namespace": namespace, "name": claim},
    }  # fmt: skip
    name, path = site.name("pv"), f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{claim}"
    site.api.create(VOLUMES, {"metadata": {"name": name}, "spec": spec})
    site.until(lambda: site.api.get(path)["status"].get("phase") == "Bound", "the claim to be bound")
    return name


def report(site: Site, job: Json, phase: str, result: DownloadReport, current: str = "Running") -> None:
    """Report how the Job's pod ended, as its kubelet would; without nodes it was `Pending` before."""
    pods = PODS.replace(f"/{NAMESPACE}/", f"/{job['metadata']['namespace']}/")
    query = f"{pods}?labelSelector=batch.kubernetes.io/job-name={job['metadata']['name']}"
    uid, found = job["metadata"]["uid"], list[Json]()

    def runs() -> bool:
        owned = (
            p for p in site.api.get(query)["items"] if p["metadata"].get("ownerReferences", [{}])[0].get("uid") == uid
        )
        stay = (pod for pod in owned if "deletionTimestamp" not in pod["metadata"])  # others have been replaced
        found[:] = [pod for pod in stay if pod["status"].get("phase") == current]
        return bool(found)

    site.until(runs, f"the pod to be {current}")
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    code = {"Succeeded": 0, "Failed": 3}[phase]
    ended = {"exitCode": code, "reason": "x", "message": encode_report(result).decode(), "finishedAt": now}
    status = {"name": "downloader", "image": "i", "imageID": "", "ready": False, "restartCount": 0,
              "state": {"terminated": ended | {"startedAt": now}}}  # fmt: skip
    body = {"status": {"phase": phase, "containerStatuses": [status]}}
    site.api.patch(f"{pods}/{found[0]['metadata']['name']}/status", body)


def wait_model_phase(site: Site, model: str, phase: str) -> Json:
    """Wait until a Model has a phase, and return its status."""
    site.until(lambda: site.status("Model", model).get("phase") == phase, f"Model {model} to be {phase}")
    return site.status("Model", model)


def ready_model(site: Site, current: str = "Running") -> str:
    """Declare a Model, simulate its storage and download, and return its name once it is Ready."""
    site.api.ensure(CLASSES, {"metadata": {"name": CLASS}, "provisioner": "kubernetes.io/no-provisioner"})
    source = {"huggingFace": {"repoId": "org/model"}}
    model = site.create(
        "Model", site.name("mdl"), {"source": source, "storage": {"storageClass": CLASS, "size": "1Gi"}}
    )
    path = f"{JOBS}/model-download-{model}"
    site.until(lambda: site.api.answers(path), f"the Job of {model}")
    volume_for(site, f"model-{model}")
    report(site, site.api.get(path), "Succeeded", DownloadReport(revision="abc"), current)
    wait_model_phase(site, model, "Ready")
    return model


def assert_injected(pod: Json, model: str) -> None:
    """Check that a pod has a Model in its first container, as its annotation asks."""
    container, prefix = pod["spec"]["containers"][0], f"MODEL_{model.upper().replace('-', '_')}"
    volume, path = f"model-{model}", f"/models/{model}"
    source = {"claimName": volume, "readOnly": True}
    assert {"name": volume, "persistentVolumeClaim": source} in pod["spec"]["volumes"]
    assert {"name": volume, "mountPath": path, "readOnly": True} in container["volumeMounts"]
    assert {"name": f"{prefix}_MOUNT_PATH", "value": path} in container["env"]
    assert pod["metadata"]["labels"]["models.example.com/injected"] == "true"
