"""ModelCaches on a real control plane, from the claim to the pods that mount it; the test acts as the kubelets."""

import pytest

from rig.errors import CallRefused
from rig.larder.site import Site
from rig.pods import kserve_pod, plain_pod
from shared.download_report import DownloadReport
from shared.json_object import Json
from tests.integration.system.conftest import Why
from tests.integration.system.download_pods import CLAIMS, CLASS, JOBS, NAMESPACE, PODS, VOLUMES, report, volume_for
from tests.integration.system.sites import CSI_DRIVER

KIND = "ModelCache"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
pytestmark = pytest.mark.usefixtures("storage_class")


def declare(site: Site, uri: str = "", **spec: object) -> str:
    fields = {"storageUri": uri or site.push(), "pvcSpec": {"storageClassName": CLASS}, **spec}
    return site.create(KIND, site.name("mc"), fields)


def job_of(site: Site, cache: str, but: str = "") -> Json:
    """Return the Job that the status of a cache names, once there is one that is not being deleted."""
    found: list[Json] = []

    def is_there() -> bool:
        name = site.status(KIND, cache).get("job", "")
        jobs = (job for job in site.api.get(JOBS)["items"] if "deletionTimestamp" not in job["metadata"])
        found[:] = [job for job in jobs if job["metadata"]["name"] == name != but]
        return bool(found)

    site.until(is_there, f"a Job for {cache}")
    return found[0]


def ready(site: Site, uri: str = "", **spec: object) -> str:
    """Return a cache that was downloaded."""
    cache = declare(site, uri, **spec)
    job = job_of(site, cache)
    volume_for(site, cache)
    report(site, job, "Succeeded", DownloadReport(revision=site.status(KIND, cache)["resolvedRevision"]))
    site.wait_ready(KIND, cache)
    return cache


def admitted(site: Site, body: Json) -> Json:
    """Create a pod once the replica that serves admission knows that its cache is ready."""
    made: list[Json] = []

    def is_made() -> bool:
        try:
            made.append(site.api.create(PODS, body))
        except CallRefused as refusal:
            if "cannot be used" not in str(refusal) and "has no model" not in str(refusal):
                raise
        return bool(made)

    site.until(is_made, "the pod to be admitted")
    return made[0]


def test_a_model_cache_serves_pods_from_its_claim_until_it_is_deleted(site: Site) -> None:
    cache = declare(site)
    job = job_of(site, cache)
    status = site.status(KIND, cache)
    assert (status["storageStatus"], status["claim"]) == ("pvcCreated", cache)
    claim = site.api.get(f"{CLAIMS}/{cache}")
    assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]
    assert claim["metadata"]["ownerReferences"][0]["kind"] == KIND
    with pytest.raises(CallRefused, match="cannot be used"):
        site.api.create(PODS, plain_pod("early", {"larder.dev/model": f"modelcache/{cache}"}))
    volume_for(site, cache)
    site.until(lambda: site.status(KIND, cache)["storageStatus"] == "Downloading", "the download to be seen")
    report(site, job, "Succeeded", DownloadReport(revision=status["resolvedRevision"]))
    found = site.wait_ready(KIND, cache)
    assert (found["storageStatus"], found["servingRevision"]) == ("Ready", status["resolvedRevision"])

    made = admitted(site, plain_pod(site.name("pod"), {"larder.dev/model": cache}))
    (volume,) = (v for v in made["spec"]["volumes"] if "persistentVolumeClaim" in v)
    assert volume["persistentVolumeClaim"] == {"claimName": cache, "readOnly": True}
    mount = next(m for m in made["spec"]["containers"][0]["volumeMounts"] if m["name"] == volume["name"])
    assert (mount["mountPath"], mount["subPath"], mount["readOnly"]) == ("/mnt/models", "model", True)
    assert "nodeSelector" not in made["spec"]
    user = made["metadata"]["name"]
    site.until(lambda: user in _refusal(site, cache), "the deletion to be refused with its user")
    site.delete_pod(user)
    site.until(lambda: _refusal(site, cache) == "", "the deletion")
    site.until(lambda: site.is_gone(KIND, cache), "the cache to be gone")
    assert not site.api.answers(f"{CLAIMS}/{cache}")


def _refusal(site: Site, cache: str) -> str:
    try:
        site.delete(KIND, cache)
    except CallRefused as refusal:
        return str(refusal)
    return ""


def test_a_pv_spec_creates_a_bound_volume_and_claim_that_are_deleted_with_the_cache(site: Site) -> None:
    csi = {"driver": CSI_DRIVER, "volumeHandle": site.name("bucket"), "volumeAttributes": {"bucketName": "models"}}
    size, shared, options = {"storage": "200Gi"}, ["ReadWriteMany"], ["allow-delete", "region us-west-2"]
    spec = {"csi": csi, "capacity": size, "accessModes": shared, "mountOptions": options}
    cache = declare(site, pvcSpec={}, pvSpec=spec)
    job, name = job_of(site, cache), f"{cache}-{NAMESPACE}"
    claim, volume = site.api.get(f"{CLAIMS}/{cache}"), site.api.get(f"{VOLUMES}/{name}")
    assert claim["spec"] == {
        "accessModes": shared,
        "resources": {"requests": size},
        "storageClassName": "",
        "volumeMode": "Filesystem",
        "volumeName": name,
    }
    reserved = volume["spec"].pop("claimRef")
    assert volume["spec"] == spec | {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"}
    assert (reserved["namespace"], reserved["name"]) == (NAMESPACE, cache)
    site.until(lambda: site.api.get(f"{CLAIMS}/{cache}")["status"]["phase"] == "Bound", "the two to be bound")
    (mounted,) = (v for v in job["spec"]["template"]["spec"]["volumes"] if "persistentVolumeClaim" in v)
    assert mounted["persistentVolumeClaim"]["claimName"] == cache
    report(site, job, "Succeeded", DownloadReport(revision=site.status(KIND, cache)["resolvedRevision"]))
    site.wait_ready(KIND, cache)
    site.until(lambda: _refusal(site, cache) == "", "the deletion")
    site.until(lambda: site.is_gone(KIND, cache), "the cache to be gone")
    assert not site.api.answers(f"{CLAIMS}/{cache}")
    assert not site.api.answers(f"{VOLUMES}/{name}")


def test_a_claim_with_a_volume_of_larder_is_bound_again_after_it_was_deleted_by_hand(site: Site) -> None:
    csi = {"driver": CSI_DRIVER, "volumeHandle": site.name("bucket"), "volumeAttributes": {"bucketName": "models"}}
    cache = declare(site, pvcSpec={}, pvSpec={"csi": csi, "capacity": {"storage": "1Gi"}})

    def bound_uid() -> str:
        found = site.api.get(f"{CLAIMS}?fieldSelector=metadata.name={cache}")["items"]
        return next((c["metadata"]["uid"] for c in found if c["status"].get("phase") == "Bound"), "")

    site.until(lambda: bool(bound_uid()), "the claim to be bound")
    job = job_of(site, cache)
    report(site, job, "Succeeded", DownloadReport(revision=site.status(KIND, cache)["resolvedRevision"]))
    site.wait_ready(KIND, cache)
    first = bound_uid()
    site.api.delete(f"{CLAIMS}/{cache}")
    site.until(lambda: bound_uid() not in ("", first), "another claim to be bound")


def test_a_kserve_pod_gets_the_claim_in_place_of_its_download(site: Site) -> None:
    uri = site.push()
    cache = ready(site, uri)
    pod = kserve_pod(site.name("isvc"), uri)
    made: list[Json] = []

    def is_cached() -> bool:
        made[:] = [site.api.call("POST", f"{PODS}?dryRun=All", pod)]
        return not made[0]["spec"].get("initContainers")

    site.until(is_cached, "the download to be replaced")
    mount = next(m for m in made[0]["spec"]["containers"][0]["volumeMounts"] if m["name"] == "kserve-pvc-source")
    assert (mount["subPath"], mount["readOnly"]) == ("model", True)
    volume = next(v for v in made[0]["spec"]["volumes"] if v["name"] == "kserve-pvc-source")
    assert volume["persistentVolumeClaim"] == {"claimName": cache, "readOnly": True}


def test_a_failed_download_is_reported_and_a_refresh_retries_it(site: Site) -> None:
    cache = declare(site)
    job = job_of(site, cache)
    volume_for(site, cache)
    report(site, job, "Failed", DownloadReport(reason="AuthDenied", message="the hub refuses this token"))
    assert "refuses this token" in site.wait_reason(KIND, cache, "AuthDenied")
    path = f"/apis/serving.kserve.io/v1alpha1/namespaces/{NAMESPACE}/modelcaches/{cache}"
    site.api.patch(path, {"metadata": {"annotations": {"larder.dev/refresh": "token renewed"}}})
    assert job_of(site, cache, but=job["metadata"]["name"])


def test_a_missing_class_is_named_in_status_and_event_and_can_be_corrected(site: Site) -> None:
    cache = declare(site, pvcSpec={"storageClassName": "nowhere"})
    assert "'nowhere'" in site.wait_reason(KIND, cache, "StorageClassNotFound")
    events = f"/api/v1/namespaces/{NAMESPACE}/events?fieldSelector=involvedObject.name={cache}"
    site.until(lambda: any("'nowhere'" in e["message"] for e in site.api.get(events)["items"]), "the event")
    path = f"/apis/serving.kserve.io/v1alpha1/namespaces/{NAMESPACE}/modelcaches/{cache}"
    site.api.patch(path, {"spec": {"pvcSpec": {"storageClassName": CLASS}}})

    def is_corrected() -> bool:
        found = {claim["metadata"]["name"]: claim["spec"] for claim in site.api.get(CLAIMS)["items"]}
        return cache in found and found[cache]["storageClassName"] == CLASS

    site.until(is_corrected, "another claim")


def test_a_quota_that_refuses_the_claim_is_reported(site: Site) -> None:
    namespace = site.name("full")
    site.api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    quota = {"metadata": {"name": "none"}, "spec": {"hard": {"persistentvolumeclaims": "0"}}}
    quotas = f"/api/v1/namespaces/{namespace}/resourcequotas"
    site.api.create(quotas, quota)
    site.until(lambda: bool(site.api.get(f"{quotas}/none").get("status", {}).get("hard")), "the quota")
    caches = f"/apis/serving.kserve.io/v1alpha1/namespaces/{namespace}/modelcaches"
    body = {"apiVersion": "serving.kserve.io/v1alpha1", "kind": KIND, "metadata": {"name": "m"},
            "spec": {"storageUri": site.push()}}  # fmt: skip
    site.api.create(caches, body)

    def reason() -> str:
        conditions = site.api.get(f"{caches}/m").get("status", {}).get("conditions", [])
        return str(next((c["reason"] for c in conditions if c["type"] == "Ready"), ""))

    site.until(lambda: reason() == "ClaimRefused", "the refusal")
    site.api.delete(f"/api/v1/namespaces/{namespace}")
    site.until(lambda: not site.api.answers(f"{caches}/m"), "the namespace to take the cache with it")


def test_a_claim_deleted_manually_is_recreated_and_refilled(site: Site) -> None:
    cache = ready(site)
    first = site.status(KIND, cache)
    site.api.delete(f"{CLAIMS}/{cache}")

    def uids() -> list[str]:
        return [c["metadata"]["uid"] for c in site.api.get(CLAIMS)["items"] if c["metadata"]["name"] == cache]

    site.until(lambda: uids() not in ([], [first["claimUid"]]), "another claim")
    assert job_of(site, cache, but=first["job"])


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"storageUri": "pvc://claim/model"}, "needs no download"),
        ({"storageUri": "https://metadata.internal/m"}, "is not among the sources"),
        ({"pvSpec": {"hostPath": {"path": "/"}}}, "Larder sets this field itself"),
        ({"pvSpec": {"csi": {"driver": "nfs.csi.k8s.io", "volumeHandle": "h"}}}, "modelCaches.csiDrivers"),
        ({"pvcSpec": {"volumeName": "theirs"}}, "spec.pvcSpec.volumeName"),
        ({"modelSize": "-1"}, "modelSize"),
    ],
)
def test_an_invalid_spec_is_refused_with_the_reason(site: Site, spec: Json, message: str) -> None:
    with pytest.raises(CallRefused, match=message):
        site.create(KIND, "wrong", {"storageUri": "hf://org/m"} | spec)


def test_the_uri_is_immutable(site: Site) -> None:
    cache = declare(site)
    path = f"/apis/serving.kserve.io/v1alpha1/namespaces/{NAMESPACE}/modelcaches/{cache}"
    with pytest.raises(CallRefused, match="immutable"):
        site.api.patch(path, {"spec": {"storageUri": "hf://org/other"}})


def test_a_filled_cache_refuses_other_files_and_applies_its_template_to_the_next_claim(site: Site) -> None:
    cache = declare(site)
    path = f"/apis/serving.kserve.io/v1alpha1/namespaces/{NAMESPACE}/modelcaches/{cache}"
    site.api.patch(path, {"spec": {"ignorePatterns": ["*.md"]}})  # it can be corrected until it is filled
    chosen = "status.selection with the pattern"
    site.until(lambda: bool(site.status(KIND, cache).get("selection")), chosen)
    job = job_of(site, cache)
    volume_for(site, cache)
    report(site, job, "Succeeded", DownloadReport(revision=site.status(KIND, cache)["resolvedRevision"]))
    site.wait_ready(KIND, cache)
    for change in ({"allowPatterns": ["*.json"]}, {"ignorePatterns": None}, {"allowPickle": False}):
        with pytest.raises(CallRefused, match="immutable once the model is on its claim"):
            site.api.patch(path, {"spec": change})
    site.api.patch(path, {"spec": {"pvcSpec": {"resources": {"requests": {"storage": "2Gi"}}}}})
    site.until(lambda: "applies once the claim" in site.ready_condition(KIND, cache)["message"], "the message")
    assert site.status(KIND, cache)["storageStatus"] == "Ready"
    site.api.delete(f"{CLAIMS}/{cache}")

    def is_larger() -> bool:
        found = site.api.get(f"{CLAIMS}?fieldSelector=metadata.name={cache}")["items"]  # none between the two claims
        return [c["spec"]["resources"]["requests"]["storage"] for c in found] == ["2Gi"]

    site.until(is_larger, "a claim from the new template")


@pytest.mark.parametrize("mode", ["Immediate", "WaitForFirstConsumer"])
def test_a_class_whose_provisioner_is_missing_is_reported_until_the_claim_is_bound(
    site: Site, why: Why, mode: str
) -> None:
    lost = site.name("lost")
    site.api.create(CLASSES, {"metadata": {"name": lost}, "provisioner": "disk.example.org", "volumeBindingMode": mode})
    cache = declare(site, pvcSpec={"storageClassName": lost})
    message = site.wait_reason(KIND, cache, "ClaimNotBound")
    assert "provisioner disk.example.org" in message
    assert "correct spec.pvcSpec.storageClassName" in message
    events = f"/api/v1/namespaces/{NAMESPACE}/events?fieldSelector=involvedObject.name={cache},reason=ClaimNotBound"
    site.until(lambda: any(e["type"] == "Warning" for e in site.api.get(events)["items"]), "the event")
    output = why(f"mc/{cache}")
    assert output.startswith(f"ModelCache {NAMESPACE}/{cache}: ClaimNotBound\n")
    assert "correct spec.pvcSpec.storageClassName" in output
    job = job_of(site, cache)
    volume_for(site, cache, storage_class=lost)
    site.until(lambda: site.ready_condition(KIND, cache)["reason"] != "ClaimNotBound", "the reason to be gone")
    report(site, job, "Succeeded", DownloadReport(revision=site.status(KIND, cache)["resolvedRevision"]))
    conditions = site.wait_ready(KIND, cache)["conditions"]
    assert not {c["type"] for c in conditions if c["status"] == "True"} & {"Stalled", "Reconciling"}
    site.api.delete(f"{CLASSES}/{lost}")


def test_deleting_a_namespace_removes_its_cache_and_pods(site: Site) -> None:
    namespace = site.name("leaving")
    site.api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    caches = f"/apis/serving.kserve.io/v1alpha1/namespaces/{namespace}/modelcaches"
    body = {"apiVersion": "serving.kserve.io/v1alpha1", "kind": KIND, "metadata": {"name": "m"},
            "spec": {"storageUri": site.push(), "pvcSpec": {"storageClassName": CLASS}}}  # fmt: skip
    site.api.create(caches, body)
    found: list[Json] = []

    def has_job() -> bool:
        found[:] = site.api.get(f"/apis/batch/v1/namespaces/{namespace}/jobs")["items"]
        return bool(found)

    site.until(has_job, "the Job")
    volume = volume_for(site, "m", namespace)
    revision = site.api.get(f"{caches}/m")["status"]["resolvedRevision"]
    report(site, found[0], "Succeeded", DownloadReport(revision=revision))
    site.until(lambda: site.api.get(f"{caches}/m")["status"]["storageStatus"] == "Ready", "the cache to be ready")
    pod = plain_pod("user", {"larder.dev/model": "modelcache/m"})
    pod["metadata"]["namespace"] = namespace
    pods = f"/api/v1/namespaces/{namespace}/pods"

    def is_made() -> bool:
        try:
            site.api.create(pods, pod)
        except CallRefused as refusal:
            if "cannot be used" not in str(refusal) and "has no model" not in str(refusal):
                raise
            return False
        return True

    site.until(is_made, "the pod to be admitted")
    site.until(lambda: site.api.get(f"{pods}/user")["status"].get("phase") == "Running", "the pod to run")
    site.api.delete(f"/api/v1/namespaces/{namespace}")
    site.until(lambda: not site.api.answers(f"/api/v1/namespaces/{namespace}"), "the namespace to be gone")
    site.until(lambda: site.api.get(f"{VOLUMES}/{volume}")["status"]["phase"] == "Released", "the volume to be kept")
    site.api.delete(f"{VOLUMES}/{volume}")
