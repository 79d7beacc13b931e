"""The webhook and the policy of the chart together: a pod gets the snapshot that admission gives it, and no other."""

import os
from collections.abc import Iterator

import pytest

from controller.admission.pods.pod_annotations import MODELS
from rig.admission import AdmissionSite
from rig.errors import CallRefused
from rig.helm import LARDER, Helm, find_helm
from rig.larder.objects import ensure
from rig.pods import base_model_pod, kserve_pod, plain_pod
from rig.processes import wait_until
from shared.json_object import Json

PRIVATE = "/var/lib/larder/models/team-a_private/beef"
REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
POLICIES = f"{REGISTRATION}/validatingadmissionpolicies"
BINDINGS = f"{REGISTRATION}/validatingadmissionpolicybindings"
NAME = "larder-store-paths"


def _thief(name: str, path: str = PRIVATE, **annotations: str) -> Json:
    pod = plain_pod(name, annotations)
    pod["spec"]["volumes"] = [{"name": "stolen", "hostPath": {"path": path, "type": "Directory"}}]
    pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "stolen", "mountPath": "/stolen", "readOnly": True}]
    return pod


def _refusal(site: AdmissionSite, pod: Json) -> str:
    with pytest.raises(CallRefused) as caught:
        site.api.create(f"{site.pods}?dryRun=All", pod)
    return str(caught.value)


@pytest.fixture(scope="module", autouse=True)
def _policy(site: AdmissionSite, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    helm = Helm(find_helm(os.environ), tmp_path_factory.mktemp("helm"))
    for found in helm.template(LARDER, {}, "larder-system"):
        if found["metadata"]["name"] == NAME:
            ensure(site.api, found)
    try:
        probe = _thief("probe")
        wait_until(lambda: not _is_allowed(site, probe), 60, "the policy to be in force")
        yield
    finally:
        site.api.delete(f"{BINDINGS}/{NAME}")
        site.api.delete(f"{POLICIES}/{NAME}")
        wait_until(lambda: _is_allowed(site, probe), 60, "the policy to be gone")


def _is_allowed(site: AdmissionSite, pod: Json) -> bool:
    try:
        site.api.create(f"{site.pods}?dryRun=All", pod)
    except CallRefused:
        return False
    return True


@pytest.mark.parametrize(
    "pod",
    [base_model_pod("given", "llama"), kserve_pod("given", "s3://bucket/m"), kserve_pod("given", "s3://bucket/m/sub")],
    ids=["a base model", "a cache", "a part of a cache"],
)
def test_mounts_added_by_admission_are_accepted(pod: Json, site: AdmissionSite) -> None:
    made = site.api.create(f"{site.pods}?dryRun=All", pod)
    assert made["spec"]["volumes"][0]["hostPath"]["path"].startswith("/var/lib/larder/models/")


def test_a_mount_without_a_model_is_refused(site: AdmissionSite) -> None:
    assert "request the model by annotation" in _refusal(site, _thief("plain"))


def test_a_forged_model_annotation_does_not_permit_a_store_mount(site: AdmissionSite) -> None:
    message = _refusal(site, _thief("forger", **{MODELS: "team-a_private@beef"}))
    assert "volume 'stolen' mounts" in message


@pytest.mark.parametrize("path", [PRIVATE, f"/{PRIVATE}", "/var/lib", "/"])
def test_a_pod_with_its_own_model_cannot_mount_another(path: str, site: AdmissionSite) -> None:
    pod = _thief("guest", path)
    pod["metadata"]["annotations"] = base_model_pod("guest", "llama")["metadata"]["annotations"]
    assert "volume 'stolen' mounts" in _refusal(site, pod)


def test_a_host_path_with_our_volume_name_is_replaced_by_the_model(site: AdmissionSite) -> None:
    pod = base_model_pod("renamed", "llama")
    pod["spec"]["volumes"] = [{"name": "larder-model", "hostPath": {"path": PRIVATE}}]
    made = site.api.create(f"{site.pods}?dryRun=All", pod)
    assert [v["hostPath"]["path"] for v in made["spec"]["volumes"]] == ["/var/lib/larder/models/llama/c0ffee"]
