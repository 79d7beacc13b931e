"""TrainingJobs of tests; the test creates the volumes and ends the pods."""

from collections.abc import Mapping
from typing import Any

from rig.larder.site import Site
from shared.json_object import Json

KIND, NAMESPACE = "TrainingJob", "default"
CLAIMS = f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
SERVICES = f"/api/v1/namespaces/{NAMESPACE}/services"
EVENTS = f"/api/v1/namespaces/{NAMESPACE}/events"
VOLUMES = "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
CLASS = "training"
JOB_LABEL = "larder.dev/training-job"


def claim_template(name: str = "data", **spec: object) -> Json:
    """Return a template of claims that get a volume only from `volume_for`."""
    resources = {"requests": {"storage": "1Gi"}}
    fields = {"accessModes": ["ReadWriteOnce"], "storageClassName": CLASS, "resources": resources, **spec}
    return {"metadata": {"name": name}, "spec": fields}


def role(replicas: int = 1, *, claims: tuple[str, ...] = ("data",), **fields: object) -> Json:
    """Return the replicas of a role, each with these claims."""
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in claims]
    container = {"name": "main", "image": "pause:3.10", "volumeMounts": mounts}
    pod = {"automountServiceAccountToken": False, "terminationGracePeriodSeconds": 1, "containers": [container]}
    templates = [claim_template(name) for name in claims]
    return {"replicas": replicas, "template": {"spec": pod}, "volumeClaimTemplates": templates, **fields}


def train(site: Site, name: str = "", /, roles: Mapping[str, Json] | None = None, **spec: Any) -> str:
    """Create a job, by default of one worker with one claim, and return its name."""
    return site.create(KIND, name or site.name("tj"), {"replicaSpecs": roles or {"Worker": role()}, **spec})


def volume_for(site: Site, claim: str) -> None:
    """Make a volume that fits a claim."""
    spec = {
        "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "storageClassName": CLASS,
        "hostPath": {"path": "/nowhere"}, "claimRef": {"namespace": NAMESPACE, "name": claim},
    }  # fmt: skip
    site.api.create(VOLUMES, {"metadata": {"name": site.name("pv")}, "spec": spec})


def owned(site: Site, collection: str, job: str) -> dict[str, Json]:
    """Return the objects of a collection that a job owns, by name."""
    found = site.api.get(f"{collection}?labelSelector={JOB_LABEL}={job}")["items"]
    return {item["metadata"]["name"]: item for item in found}


def wait_claims(site: Site, job: str, count: int) -> dict[str, Json]:
    """Wait until a job has this many claims, and return them by name."""
    site.until(lambda: len(owned(site, CLAIMS, job)) == count, f"{count} claims of {job}")
    return owned(site, CLAIMS, job)


def wait_phase(site: Site, job: str, phase: str, count: int) -> dict[str, Json]:
    """Wait until this many pods of a job have a phase, and return them by name."""

    def of_phase() -> dict[str, Json]:
        pods = owned(site, PODS, job).items()
        return {
            name: pod
            for name, pod in pods
            if pod["status"].get("phase") == phase and "deletionTimestamp" not in pod["metadata"]
        }

    site.until(lambda: len(of_phase()) == count, f"{count} pods of {job} to be {phase}")
    return of_phase()


def running(site: Site, job: str, count: int = 1) -> dict[str, Json]:
    """Give every claim of a job a volume, and return its pods once they run."""
    for claim in wait_claims(site, job, count):
        if site.api.get(f"{CLAIMS}/{claim}")["status"].get("phase") != "Bound":
            volume_for(site, claim)
    return wait_phase(site, job, "Running", count)


def end(site: Site, pod: str, code: int = 0, **status: object) -> None:
    """Report how the container of a pod ended, as its kubelet would."""
    stamp = "2026-01-01T00:00:00Z"
    ended = {"exitCode": code, "reason": "Completed" if code == 0 else "Error", "startedAt": stamp, "finishedAt": stamp}
    container = {"name": "main", "image": "i", "imageID": "", "ready": False, "restartCount": 0}
    containers = [container | {"state": {"terminated": ended}}]
    body = {"phase": "Failed" if code else "Succeeded", "containerStatuses": containers, **status}
    site.api.patch(f"{PODS}/{pod}/status", {"status": body})


def condition(site: Site, job: str, kind: str = "Ready") -> Json:
    """Return a condition of a job, or nothing."""
    found = site.status(KIND, job).get("conditions", [])
    return next((one for one in found if one["type"] == kind), {})


def wait_reason(site: Site, job: str, reason: str, kind: str = "Ready") -> str:
    """Wait for the reason of a condition, and return its message."""
    site.until(lambda: condition(site, job, kind).get("reason") == reason, f"{job} to report {reason}")
    return str(condition(site, job, kind)["message"])


def event(site: Site, job: str, reason: str) -> str:
    """Wait for an Event on a job, and return its message."""
    query = f"{EVENTS}?fieldSelector=involvedObject.kind={KIND},involvedObject.name={job},reason={reason}"
    site.until(lambda: bool(site.api.get(query)["items"]), f"an Event {reason} on {job}")
    return str(site.api.get(query)["items"][0]["message"])
