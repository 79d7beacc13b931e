"""Obstacles to the download of a Model (`models.example.com`), and its continuation once they are removed."""

import pytest

from rig.larder.site import Site
from rig.pods import plain_pod
from shared.download_report import DownloadReport
from shared.json_object import Json
from tests.integration.system.conftest import Why
from tests.integration.system.download_pods import CLAIMS, CLASS, JOBS, NAMESPACE, PODS, ready_model, report, volume_for
from tests.integration.system.training import role, train

KIND, CLASSES = "Model", "/apis/storage.k8s.io/v1/storageclasses"
NO_PROVISIONER: Json = {"provisioner": "kubernetes.io/no-provisioner"}
DONE = DownloadReport(revision="abc")
pytestmark = pytest.mark.usefixtures("storage_class")


def declare(site: Site, name: str = "", storage_class: str = CLASS, size: str = "1Gi") -> str:
    storage = {"storageClass": storage_class, "size": size}
    spec = {"source": {"huggingFace": {"repoId": "org/model"}}, "storage": storage}
    return site.create(KIND, name or site.name("mdl"), spec)


def wait_reason(site: Site, model: str, reason: str) -> str:
    """Wait for the reason of the condition Ready, and return the message of the status."""

    def reasons() -> list[str]:
        return [c["reason"] for c in site.status(KIND, model).get("conditions", []) if c["type"] == "Ready"]

    site.until(lambda: reasons() == [reason], f"Model {model} to report {reason}")
    return str(site.status(KIND, model)["message"])


def job_of(site: Site, model: str, but: str = "") -> Json:
    """Return the Job of a Model, once there is one with another uid than `but` that is not being deleted."""
    query, found = f"{JOBS}?fieldSelector=metadata.name=model-download-{model}", list[Json]()

    def is_there() -> bool:
        jobs = site.api.get(query)["items"]
        found[:] = [j for j in jobs if "deletionTimestamp" not in j["metadata"] and j["metadata"]["uid"] != but]
        return bool(found)

    site.until(is_there, f"the Job of {model}")
    return found[0]


def finish(site: Site, model: str, storage_class: str = CLASS) -> None:
    """Simulate the storage and the download, to show that nothing else blocks the model."""
    job = job_of(site, model)  # which is created once the claim is the Model's
    volume_for(site, f"model-{model}", storage_class=storage_class)
    report(site, job, "Succeeded", DONE)
    wait_reason(site, model, "Ready")
    site.delete(KIND, model)


def test_a_claim_waits_for_a_missing_storage_class_that_is_created_later(site: Site) -> None:
    later = site.name("later")
    model = declare(site, storage_class=later)
    message = wait_reason(site, model, "StorageClassNotFound")
    assert f"claim model-{model} waits for StorageClass {later!r}, which does not exist" in message
    assert site.status(KIND, model)["phase"] == "Downloading"
    site.api.create(CLASSES, {"metadata": {"name": later}} | NO_PROVISIONER)
    finish(site, model, later)
    site.api.delete(f"{CLASSES}/{later}")


def test_a_claim_that_is_unbound_for_a_minute_is_reported(site: Site, why: Why) -> None:
    model = declare(site)
    message = wait_reason(site, model, "ClaimNotBound")
    assert f"claim model-{model} has not been bound for 1 min: provisioner kubernetes.io/no-provisioner" in message
    assert f"kubectl describe pvc model-{model} -n {NAMESPACE}" in message
    assert "ClaimNotBound" in why(f"mdl/{model}", exits=0)
    finish(site, model)


def test_a_job_refused_by_a_quota_is_reported_and_created_later(site: Site) -> None:
    quotas = f"/api/v1/namespaces/{NAMESPACE}/resourcequotas"
    quota = {"metadata": {"name": "no-more-jobs"}, "spec": {"hard": {"count/jobs.batch": "0"}}}
    site.api.create(quotas, quota)
    site.until(lambda: "hard" in site.api.get(f"{quotas}/no-more-jobs").get("status", {}), "the quota to be counted")
    model = declare(site)
    assert "exceeded quota" in wait_reason(site, model, "JobRefused")
    assert site.status(KIND, model)["phase"] == "Pending"
    site.api.delete(f"{quotas}/no-more-jobs")
    finish(site, model)


def test_a_claim_name_shared_with_a_training_job_is_reported_as_a_conflict(site: Site) -> None:
    """The claim `model` of worker 0 has the same name as that of a Model; the first owner keeps it."""
    workers = {"Worker": role(claims=("model",))}
    first = train(site, roles=workers)
    claim = f"{CLAIMS}/model-{first}-worker-0"
    site.until(lambda: site.api.answers(claim), "the claim of the TrainingJob")
    model = declare(site, f"{first}-worker-0")
    conflict = f"claim model-{model} belongs to TrainingJob {first}; create the Model under another name"
    assert conflict in wait_reason(site, model, "NameConflict")
    assert not site.api.answers(f"{JOBS}/model-download-{model}")
    site.delete("TrainingJob", first)
    finish(site, model)

    second = site.name("tj")
    model = declare(site, f"{second}-worker-0")
    site.until(lambda: site.api.answers(f"{CLAIMS}/model-{model}"), "the claim of the Model")
    train(site, second, workers)

    def refusal() -> list[str]:
        return [c["message"] for c in site.status("TrainingJob", second).get("conditions", [])
                if c["type"] == "Ready" and c["reason"] == "NameConflict"]  # fmt: skip

    site.until(lambda: bool(refusal()), "the conflict to be reported on the TrainingJob")
    assert f"belongs to Model {model}" in refusal()[0]
    site.delete("TrainingJob", second)
    finish(site, model)


def test_a_model_recreated_right_after_its_deletion_gets_a_claim_and_job_of_its_own(site: Site) -> None:
    """Kubernetes deletes the claim and the Job of the first model a little later; the second gets new ones."""
    model = declare(site)
    first = job_of(site, model)
    volume_for(site, f"model-{model}")
    report(site, first, "Succeeded", DONE)
    wait_reason(site, model, "Ready")
    site.delete(KIND, model)
    site.until(lambda: site.is_gone(KIND, model), "the first to be gone")
    declare(site, model)

    job_of(site, model, but=first["metadata"]["uid"])
    finish(site, model)


def test_an_update_prefers_the_node_whose_pods_mount_the_claim(site: Site) -> None:
    """With most ReadWriteOnce drivers, no other node can attach the volume meanwhile."""
    model, user = ready_model(site), site.name("web")
    first = job_of(site, model)["metadata"]["uid"]
    site.pod(plain_pod(user, {"models.example.com/inject": model}))
    site.until(lambda: site.api.get(f"{PODS}/{user}")["status"].get("phase") == "Running", "the pod to run")
    path = f"/apis/models.example.com/v1alpha1/namespaces/{NAMESPACE}/models/{model}"
    site.api.patch(path, {"spec": {"version": "2"}})
    affinity = job_of(site, model, but=first)["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    (preferred,) = affinity["preferredDuringSchedulingIgnoredDuringExecution"]
    (name,) = preferred["preference"]["matchFields"]
    assert name == {"key": "metadata.name", "operator": "In", "values": [site.pod_node(user)]}
    site.delete_pod(user)
    site.delete_unused("Model", model)
