"""Pods that get their model through a claim, which is the default."""

import copy

import jsonpatch
import pytest

from controller.admission.catalog.memory import MemoryCatalog
from controller.admission.errors import MountConflict
from controller.admission.pods.pod_annotations import MOUNT
from controller.admission.pods.pod_changes import pod_changes
from controller.admission.settings import AdmissionSettings
from controller.placement.volume_names import (
    CLAIMS_ANNOTATION,
    SnapshotKey,
    hashed_name,
    read_claims,
)
from rig.pods import base_model_pod, kserve_pod
from shared.json_object import Json
from shared.names import ready_label, snapshot_label

SETTINGS = AdmissionSettings()


def admit(pod: Json, catalog: MemoryCatalog, namespace: str = "default") -> Json:
    """Send a pod through admission twice; the second pass must change nothing."""
    after: Json = jsonpatch.apply_patch(copy.deepcopy(pod), list(pod_changes(pod, namespace, catalog, SETTINGS).patch))
    assert pod_changes(after, namespace, catalog, SETTINGS).patch == ()
    return after


def claim_of(pod: Json, volume: str) -> Json:
    claim: Json = next(v for v in pod["spec"]["volumes"] if v["name"] == volume)["persistentVolumeClaim"]
    return claim


def test_a_pod_mounts_the_claim_of_its_base_model_and_records_its_snapshot(catalog: MemoryCatalog) -> None:
    pod = admit(base_model_pod("p", "llama"), catalog)
    assert claim_of(pod, "larder-model") == {"claimName": "llama", "readOnly": True}
    assert pod["metadata"]["annotations"][CLAIMS_ANNOTATION] == "llama=llama@c0ffee"
    assert pod["spec"]["nodeSelector"] == {ready_label("llama"): "true", snapshot_label("llama", "c0ffee"): "true"}
    assert pod["spec"]["containers"][0]["volumeMounts"][0]["readOnly"] is True
    assert not any("hostPath" in volume for volume in pod["spec"]["volumes"])


def test_a_kserve_pod_mounts_the_part_of_the_cache_that_it_asked_for(catalog: MemoryCatalog) -> None:
    pod = admit(kserve_pod("p", "s3://bucket/m/x"), catalog)
    assert claim_of(pod, "kserve-pvc-source") == {"claimName": "short", "readOnly": True}
    assert pod["spec"]["containers"][0]["volumeMounts"][0]["subPath"] == "x"


def test_the_claim_of_a_later_revision_has_a_hash_in_its_name(catalog: MemoryCatalog) -> None:
    claim = claim_of(admit(kserve_pod("p", "s3://bucket/m/sub"), catalog), "kserve-pvc-source")["claimName"]
    assert claim == hashed_name(SnapshotKey("long", "r2"))
    assert claim.startswith("long-")
    assert claim != hashed_name(SnapshotKey("long", "r3"))


def test_the_claim_of_a_namespaced_model_has_a_hashed_name(catalog: MemoryCatalog) -> None:
    claim = claim_of(admit(base_model_pod("p", "llama"), catalog, "team"), "larder-model")["claimName"]
    assert claim == hashed_name(SnapshotKey("team_llama", "beef"))
    assert claim.startswith("llama-")


def test_a_claim_gets_a_hashed_name_if_a_tenants_claim_has_the_models_name(catalog: MemoryCatalog) -> None:
    catalog.claims["default", "llama"] = "a claim of the tenant's own"
    claim = claim_of(admit(base_model_pod("p", "llama"), catalog), "larder-model")["claimName"]
    assert claim == hashed_name(SnapshotKey("llama", "c0ffee"))


def test_a_pod_that_requests_a_host_path_mounts_the_host_path(catalog: MemoryCatalog) -> None:
    asking = base_model_pod("p", "llama")
    asking["metadata"]["annotations"][MOUNT] = "hostPath"
    pod = admit(asking, catalog)
    assert pod["spec"]["volumes"][0]["hostPath"]["path"] == "/var/lib/larder/models/llama/c0ffee"
    assert read_claims(pod["metadata"]["annotations"]) == {}


def test_an_unknown_mount_method_is_refused_with_the_valid_ones(catalog: MemoryCatalog) -> None:
    asking = base_model_pod("p", "llama")
    asking["metadata"]["annotations"][MOUNT] = "nfs"
    with pytest.raises(MountConflict, match=r"larder\.dev/mount is 'nfs'; write claim or hostPath"):
        pod_changes(asking, "default", catalog, SETTINGS)


def test_a_copied_pod_gets_a_claim_in_place_of_its_host_path(catalog: MemoryCatalog) -> None:
    asking = base_model_pod("p", "llama")
    asking["metadata"]["annotations"][MOUNT] = "hostPath"
    copied = admit(asking, catalog)
    del copied["metadata"]["annotations"][MOUNT]
    pod = admit(copied, catalog)
    assert claim_of(pod, "larder-model")["claimName"] == "llama"
    assert len(pod["spec"]["volumes"]) == len(copied["spec"]["volumes"])
