"""Models (`models.example.com`) on a real control plane; the test acts as the storage and the kubelets."""

from functools import partial

import pytest

from rig.errors import CallRefused
from rig.larder.site import Site
from shared.download_report import DownloadReport
from shared.json_object import Json
from tests.integration.system.download_pods import (
    CLAIMS,
    CLASS,
    JOBS,
    NAMESPACE,
    PODS,
    report,
    volume_for,
    wait_model_phase,
)

KIND = "Model"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
DONE = DownloadReport(revision="abc")
pytestmark = pytest.mark.usefixtures("storage_class")


def declare(site: Site, name: str = "", **spec: object) -> str:
    fields = {
        "source": {"huggingFace": {"repoId": site.push().removeprefix("hf://")}},
        "storage": {"storageClass": CLASS, "size": "1Gi"},
        **spec,
    }
    return site.create(KIND, name or site.name("mdl"), fields)


def job_of(site: Site, model: str, but: str = "") -> Json:
    """Return the Job of a Model, once there is one with another uid than `but` that is not being deleted."""
    found: list[Json] = []

    def is_there() -> bool:
        jobs = (job for job in site.api.get(JOBS)["items"] if job["metadata"]["name"] == f"model-download-{model}")
        found[:] = [j for j in jobs if "deletionTimestamp" not in j["metadata"] and j["metadata"]["uid"] != but]
        return bool(found)

    site.until(is_there, f"a Job for {model}")
    return found[0]


def path_of(model: str) -> str:
    return f"/apis/models.example.com/v1alpha1/namespaces/{NAMESPACE}/models/{model}"


def kept(job: Json) -> list[str]:
    """Return the versions that the Job of a Model keeps on its claim."""
    arguments = job["spec"]["template"]["spec"]["containers"][0]["args"]
    return [argument for argument in arguments if argument.startswith("--keep=")]


def holds(status: Json, kind: str) -> bool:
    return any(c["type"] == kind and c["status"] == "True" for c in status.get("conditions", []))


def message_of(status: Json, kind: str) -> str:
    return "".join(c["message"] for c in status.get("conditions", []) if c["type"] == kind)


def ready(site: Site, version: str = "") -> str:
    model = declare(site, version=version)
    job = job_of(site, model)
    volume_for(site, f"model-{model}")
    report(site, job, "Succeeded", DONE)
    wait_model_phase(site, model, "Ready")
    return model


def test_a_model_is_downloaded_to_its_claim_becomes_ready_and_is_deleted_with_its_objects(site: Site) -> None:
    model = declare(site, version="3.1", credentialsSecret="absent", nodeSelector={"disk": "fast"})
    assert site.get(KIND, model)["spec"]["source"]["huggingFace"]["revision"] == "main"
    job = job_of(site, model)
    claim = site.api.get(f"{CLAIMS}/model-{model}")
    (owner,) = claim["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == (KIND, model, True)
    assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]
    assert claim["spec"]["resources"]["requests"] == {"storage": "1Gi"}
    assert (job["spec"]["backoffLimit"], job["spec"]["ttlSecondsAfterFinished"]) == (3, 3600)
    spec = job["spec"]["template"]["spec"]
    assert spec["nodeSelector"]["disk"] == "fast"
    (secret,) = (volume["secret"] for volume in spec["volumes"] if "secret" in volume)
    assert (secret["secretName"], secret["optional"]) == ("absent", True)
    status = wait_model_phase(site, model, "Downloading")
    assert status["pvcName"] == f"model-{model}"
    model_without_selector = ready(site)
    found = site.status(KIND, model_without_selector)
    assert (found["progress"], found["revision"]) == (100, "abc")

    def is_gone(path: str) -> bool:
        return not site.api.answers(path)

    for name in (model, model_without_selector):
        site.delete(KIND, name)
        for path in (f"{CLAIMS}/model-{name}", f"{JOBS}/model-download-{name}"):
            site.until(partial(is_gone, path), f"{path} to be collected")


def test_a_failed_download_is_retried_once_its_job_is_deleted(site: Site) -> None:
    model = declare(site)
    job = job_of(site, model)
    volume_for(site, f"model-{model}")
    report(site, job, "Failed", DownloadReport(reason="AuthDenied", message="the hub refuses the token"))
    assert "the hub refuses the token" in wait_model_phase(site, model, "Failed")["message"]
    site.api.delete(f"{JOBS}/{job['metadata']['name']}")
    again = job_of(site, model, but=job["metadata"]["uid"])
    wait_model_phase(site, model, "Downloading")
    report(site, again, "Succeeded", DONE)
    wait_model_phase(site, model, "Ready")


def test_a_ready_model_stays_ready_without_its_job_and_after_a_restart_of_the_controllers(site: Site) -> None:
    model = ready(site)
    job = job_of(site, model)
    site.api.delete(f"{JOBS}/{job['metadata']['name']}")
    for controller in site.cluster.controllers:
        controller.process.stop()
    for controller in site.cluster.controllers:
        controller.start()
    other = declare(site)
    job_of(site, other)  # a new leader reconciles
    assert site.status(KIND, model)["phase"] == "Ready"
    assert not site.api.answers(f"{JOBS}/model-download-{model}")


def test_a_deleted_claim_is_recreated_and_refilled(site: Site) -> None:
    model = ready(site)
    before = site.api.get(f"{CLAIMS}/model-{model}")["metadata"]["uid"]
    first = job_of(site, model)
    site.api.delete(f"{CLAIMS}/model-{model}")

    def is_new() -> bool:
        found = {claim["metadata"]["name"]: claim["metadata"]["uid"] for claim in site.api.get(CLAIMS)["items"]}
        return f"model-{model}" in found and bool(found[f"model-{model}"] != before)

    site.until(is_new, "another claim")
    volume_for(site, f"model-{model}")
    again = job_of(site, model, but=first["metadata"]["uid"])
    wait_model_phase(site, model, "Downloading")
    report(site, again, "Succeeded", DONE)
    wait_model_phase(site, model, "Ready")


def test_a_new_version_is_downloaded_beside_the_old_files_and_then_served(site: Site) -> None:
    model = ready(site, version="1")
    first = job_of(site, model)
    site.api.patch(path_of(model), {"spec": {"version": "2"}})
    again = job_of(site, model, but=first["metadata"]["uid"])
    (to,) = (a for a in again["spec"]["template"]["spec"]["containers"][0]["args"] if a.startswith("--to="))
    assert to.startswith("--to=/models/.revisions/")
    assert site.status(KIND, model)["phase"] == "Ready"
    assert kept(again) == ["--keep=."]
    report(site, again, "Succeeded", DownloadReport(revision="def"))
    site.until(lambda: site.status(KIND, model).get("revision") == "def", "the new version to be served")
    assert site.status(KIND, model)["path"] == to.removeprefix("--to=/models/")
    site.until(lambda: not holds(site.status(KIND, model), "Updating"), "the update to be over")


def test_a_download_waits_for_the_pod_of_the_one_that_it_replaces(site: Site) -> None:
    """Both would write to the same claim."""
    model = declare(site, version="1")
    first = job_of(site, model)
    volume_for(site, f"model-{model}")
    query, pods = f"{PODS}?labelSelector=batch.kubernetes.io/job-name={first['metadata']['name']}", list[Json]()

    def runs() -> bool:
        pods[:] = [pod for pod in site.api.get(query)["items"] if pod["status"].get("phase") == "Running"]
        return bool(pods)

    site.until(runs, "the pod to run")
    pod, held = pods[0]["metadata"], "example.com/held"
    path = f"{PODS}/{pod['name']}"
    site.api.patch(path, {"metadata": {"finalizers": [*pod["finalizers"], held]}})
    site.api.patch(path_of(model), {"spec": {"version": "2"}})
    site.until(lambda: "deletionTimestamp" in site.api.get(path)["metadata"], "the pod to be deleted")
    site.until(lambda: "is being deleted" in site.status(KIND, model).get("message", ""), "the Model to wait")
    site.api.patch(path, {"metadata": {"finalizers": None}})
    again = job_of(site, model, but=first["metadata"]["uid"])
    (to,) = (a for a in again["spec"]["template"]["spec"]["containers"][0]["args"] if a.startswith("--to="))
    assert kept(again) == [to.replace("--to=/models/", "--keep=")]  # what the first left at the root is removed
    site.delete(KIND, model)


def test_an_update_keeps_the_versions_that_running_pods_mount(site: Site) -> None:
    model = ready(site, version="1")
    whole = {"name": "m", "mountPath": "/m", "readOnly": True}
    for mount, stays in (
        (whole | {"subPath": ".revisions/older"}, ["--keep=.", "--keep=.revisions/older"]),
        (whole, []),  # it may see every version
    ):
        pod = site.name("user")
        volume = {"name": "m", "persistentVolumeClaim": {"claimName": f"model-{model}"}}
        spec = {"containers": [{"name": "main", "image": "i", "volumeMounts": [mount]}], "volumes": [volume]}
        site.api.create(PODS, {"metadata": {"name": pod}, "spec": spec})
        before = job_of(site, model)["metadata"]["uid"]
        site.api.patch(path_of(model), {"spec": {"version": pod}})
        assert kept(job_of(site, model, but=before)) == stays
        site.api.delete(f"{PODS}/{pod}", grace_s=0)
    site.delete(KIND, model)


def test_a_larger_size_grows_the_claim_and_retries_the_download_that_lacked_space(site: Site) -> None:
    growing = site.name("growing")
    body = {"metadata": {"name": growing}, "provisioner": "kubernetes.io/no-provisioner", "allowVolumeExpansion": True}
    site.api.create(CLASSES, body)
    model = declare(site, storage={"storageClass": growing, "size": "1Gi"})
    first = job_of(site, model)
    volume_for(site, f"model-{model}", storage_class=growing)
    report(site, first, "Failed", DownloadReport(reason="InsufficientStorage", message="1.0 GiB more is needed"))
    wait_model_phase(site, model, "Failed")
    site.api.patch(path_of(model), {"spec": {"storage": {"size": "2Gi"}}})
    claim = f"{CLAIMS}/model-{model}"

    def asks_for_more() -> bool:
        return bool(site.api.get(claim)["spec"]["resources"]["requests"]["storage"] == "2Gi")

    site.until(asks_for_more, "the claim to ask for more")
    site.until(lambda: holds(site.status(KIND, model), "Resizing"), "the growth to be reported")
    site.api.patch(f"{claim}/status", {"status": {"capacity": {"storage": "2Gi"}}})  # as the driver does
    again = job_of(site, model, but=first["metadata"]["uid"])
    report(site, again, "Succeeded", DONE)
    wait_model_phase(site, model, "Ready")
    site.until(lambda: not holds(site.status(KIND, model), "Resizing"), "the growth to be over")
    site.api.patch(path_of(model), {"spec": {"storage": {"size": "1Gi"}}})
    site.until(lambda: "cannot shrink" in message_of(site.status(KIND, model), "Resizing"), "the reason to be reported")
    assert site.status(KIND, model)["phase"] == "Ready"
    site.delete(KIND, model)
    site.api.delete(f"{CLASSES}/{growing}")


def test_a_class_that_cannot_grow_its_claims_is_reported(site: Site) -> None:
    model = ready(site)
    site.api.patch(path_of(model), {"spec": {"storage": {"size": "2Gi"}}})
    site.until(lambda: "resize" in message_of(site.status(KIND, model), "Resizing"), "the refusal to be reported")
    assert "cannot grow from 1Gi to 2Gi" in message_of(site.status(KIND, model), "Resizing")
    assert site.status(KIND, model)["phase"] == "Ready"
    site.delete(KIND, model)


def test_a_foreign_claim_with_the_name_of_ours_is_not_adopted(site: Site) -> None:
    model = site.name("mdl")
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": CLASS, "resources": {"requests": {"storage": "1Gi"}}}
    site.api.create(CLAIMS, {"metadata": {"name": f"model-{model}"}, "spec": spec})
    declare(site, model)
    site.until(
        lambda: "Larder did not create it" in site.status(KIND, model).get("message", ""), "the conflict to be reported"
    )
    assert not site.api.answers(f"{JOBS}/model-download-{model}")
    site.api.delete(f"{CLAIMS}/model-{model}")
    job_of(site, model)


def test_a_name_too_long_for_its_job_is_refused(site: Site) -> None:
    with pytest.raises(CallRefused, match="a name of at most 48"):
        declare(site, "m" * 49)


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"source": {}}, "exactly one"),
        ({"source": {"url": {"url": "https://h/f"}, "s3": {"bucket": "b", "key": "k"}}}, "exactly one"),
        ({"source": {"url": {"url": "ftp://h/f"}}}, "url"),
        ({"source": {"huggingFace": {"repoId": "no-slash"}}}, "repoId"),
        ({"storage": {"storageClass": CLASS, "size": "20 GB"}}, "size"),
        ({"storage": {"storageClass": CLASS, "size": "1.5Gi"}}, "size"),
    ],
)
def test_specs_that_the_specification_forbids_are_refused(site: Site, spec: Json, says: str) -> None:
    with pytest.raises(CallRefused, match=says):
        declare(site, **spec)


def test_a_quota_that_refuses_the_claim_is_reported_and_clears(site: Site) -> None:
    quotas = f"/api/v1/namespaces/{NAMESPACE}/resourcequotas"
    hard = {f"{CLASS}.storageclass.storage.k8s.io/persistentvolumeclaims": "0"}
    site.api.create(quotas, {"metadata": {"name": "no-claims"}, "spec": {"hard": hard}})
    site.until(lambda: "hard" in site.api.get(f"{quotas}/no-claims").get("status", {}), "the quota to be counted")
    model = declare(site)
    site.until(lambda: "exceeded quota" in site.status(KIND, model).get("message", ""), "the quota to be reported")
    assert site.status(KIND, model)["phase"] == "Pending"
    site.api.delete(f"{quotas}/no-claims")
    job_of(site, model)
