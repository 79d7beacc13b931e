"""Which fields pvcSpec and pvSpec may set, and the resulting claims and volumes."""

from typing import Any

import pytest

from controller.modelcaches.objects import ClaimTemplate, StorageManifest, is_claim_of, wanted_bytes
from tests.builders.model_caches import cache, claim

S3: dict[str, Any] = {"driver": "s3.csi.aws.com", "volumeHandle": "h", "volumeAttributes": {"bucketName": "b"}}
DRIVERS = ("s3.csi.aws.com",)


def manifest(claim_spec: dict[str, Any] | None = None, volume_spec: dict[str, Any] | None = None) -> StorageManifest:
    template = ClaimTemplate("team", claim_spec or {}, volume_spec or {})
    return StorageManifest(cache().metadata, "llama", 2**30, template)


def test_a_cache_without_templates_gets_a_claim_of_the_default_class() -> None:
    body = manifest().claim_body()
    assert body["spec"] == {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": str(2**30)}},
        "volumeMode": "Filesystem",
    }
    assert body["metadata"]["ownerReferences"][0]["uid"] == "u1"


def test_class_access_modes_and_size_of_pvc_spec_are_used() -> None:
    asked = {"storageClassName": "nfs", "accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "5Gi"}}}
    spec = manifest(asked).claim_body()["spec"]
    assert {name: spec[name] for name in asked} == asked


def test_an_empty_class_is_kept_as_written() -> None:
    assert manifest({"storageClassName": ""}).claim_body()["spec"]["storageClassName"] == ""


def test_a_pv_spec_creates_a_volume_and_a_claim_bound_to_each_other() -> None:
    made = manifest(volume_spec={"csi": S3, "accessModes": ["ReadWriteMany"], "mountOptions": ["allow-delete"]})
    volume, bound = made.volume_body("llama-team"), made.claim_body("llama-team")["spec"]
    assert made.volume_names[0] == volume["metadata"]["name"] == "llama-team"
    assert (bound["volumeName"], bound["storageClassName"]) == ("llama-team", "")
    assert volume["spec"]["claimRef"]["namespace"] == "team"
    assert volume["spec"]["csi"] == S3
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert volume["spec"]["accessModes"] == bound["accessModes"] == ["ReadWriteMany"]


@pytest.mark.parametrize(
    ("claim_spec", "volume_spec", "named"),
    [
        ({"volumeName": "other"}, {}, "spec.pvcSpec.volumeName"),
        ({"dataSource": {}}, {}, "spec.pvcSpec.dataSource"),
        ({"accessModes": ["ReadWriteOnce"] * 1000}, {}, "spec.pvcSpec has more than 4 KiB"),
        ({}, {"csi": S3 | {"volumeAttributes": {"a": "b" * 5000}}}, "spec.pvSpec has more than 4 KiB"),
        ({"accessModes": ["ReadOnlyMany"]}, {}, "spec.pvcSpec.accessModes"),
        ({"accessModes": "ReadWriteOnce"}, {}, "spec.pvcSpec.accessModes"),
        ({"resources": "5Gi"}, {}, "spec.pvcSpec.resources"),
        ({"resources": {"requests": "5Gi"}}, {}, "spec.pvcSpec.resources"),
        ({}, {"csi": S3, "capacity": "5Gi"}, "spec.pvSpec.capacity"),
        ({}, {"csi": S3 | {"driver": ["s3.csi.aws.com"]}}, "spec.pvSpec.csi.driver"),
        ({}, {"hostPath": {"path": "/"}}, "spec.pvSpec.hostPath"),
        ({}, {"hostPath": {"path": "/"}}, "spec.pvSpec.csi.driver"),
        ({}, {"csi": {"driver": "nfs.csi.k8s.io"}}, "nfs.csi.k8s.io may not be used"),
        ({}, {"csi": "s3.csi.aws.com"}, "spec.pvSpec.csi.driver"),
        ({}, {"csi": S3, "claimRef": {}}, "spec.pvSpec.claimRef"),
        ({}, {"csi": S3 | {"nodePublishSecretRef": {"name": "s", "namespace": "kube-system"}}}, "namespace team"),
    ],
)
def test_other_fields_of_pvc_spec_and_pv_spec_are_refused(claim_spec: Any, volume_spec: Any, named: str) -> None:
    assert named in "; ".join(ClaimTemplate("team", claim_spec, volume_spec).problems(DRIVERS))


def test_the_volume_mode_may_be_stated_only_as_filesystem() -> None:
    assert list(ClaimTemplate("team", {"volumeMode": "Filesystem"}, {}).problems(DRIVERS)) == []
    assert "pvcSpec.volumeMode" in "; ".join(ClaimTemplate("team", {"volumeMode": "Block"}, {}).problems(DRIVERS))


def test_an_allowed_driver_is_accepted() -> None:
    secret = S3 | {"nodePublishSecretRef": {"name": "s", "namespace": "team"}}
    assert list(ClaimTemplate("team", {}, {"csi": secret}).problems(DRIVERS)) == []


@pytest.mark.parametrize(
    ("declared", "size", "least"), [(None, 10**10, 1.1e10), ("20G", 10**10, 2.2e10), ("x", 5, 64 * 2**20)]
)
def test_the_claim_is_large_enough_for_the_model_and_its_file_system(
    declared: str | None, size: int, least: float
) -> None:
    found = wanted_bytes(cache(model_size=declared), size)
    assert least <= found < least * 1.2 + 2**21
    assert found % 2**20 == 0


def test_a_claim_belongs_to_the_cache_only_with_both_label_and_owner() -> None:
    assert is_claim_of(claim(), cache().metadata)
    assert not is_claim_of(claim(ours=False), cache().metadata)
