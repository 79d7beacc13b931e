"""The manifests of volumes and claims, and their names."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.placement.volume_names import (
    CLAIMS_ANNOTATION,
    SnapshotKey,
    hashed_name,
    read_claims,
    volume_names,
    waiting_name,
    write_claims,
)
from controller.volumes.objects import VolumeManifest, VolumeTemplate
from shared.names import snapshot_label

WANTED = SnapshotKey("llama", "c0ffee")
MANIFEST = VolumeManifest("team", "llama", "llama-team", WANTED, 5_000, "/var/lib/larder")


def test_the_volume_is_read_only_prebound_and_on_nodes_with_the_files() -> None:
    spec = MANIFEST.volume_body()["spec"]
    assert spec["mountOptions"] == ["ro"]
    assert spec["local"] == {"path": "/var/lib/larder/models/llama/c0ffee"}
    assert spec["persistentVolumeReclaimPolicy"] == "Retain"
    assert (spec["claimRef"]["namespace"], spec["claimRef"]["name"]) == ("team", "llama")
    term = {"key": snapshot_label("llama", "c0ffee"), "operator": "In", "values": ["true"]}
    assert spec["nodeAffinity"]["required"]["nodeSelectorTerms"] == [{"matchExpressions": [term]}]
    assert spec["capacity"] == {"storage": "5000"}


def test_pods_that_wait_get_the_same_files_on_any_linux_node() -> None:
    waiting = replace(MANIFEST, claim=waiting_name(WANTED)).volume_body()["spec"]
    term = {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}
    assert waiting["nodeAffinity"]["required"]["nodeSelectorTerms"] == [{"matchExpressions": [term]}]
    ordinary = MANIFEST.volume_body()["spec"]
    assert waiting["claimRef"] == ordinary["claimRef"] | {"name": waiting_name(WANTED)}
    changed = ("nodeAffinity", "claimRef")
    assert {k: v for k, v in waiting.items() if k not in changed} == {
        k: v for k, v in ordinary.items() if k not in changed
    }


def test_the_claim_names_its_volume_and_has_the_same_class_and_modes() -> None:
    claim, volume = MANIFEST.claim_body()["spec"], MANIFEST.volume_body()["spec"]
    assert claim["volumeName"] == "llama-team"
    assert (claim["storageClassName"], claim["accessModes"]) == (volume["storageClassName"], volume["accessModes"])
    assert claim["resources"] == {"requests": {"storage": "5000"}}


def test_a_template_may_set_capacity_class_and_mount_options() -> None:
    template = VolumeTemplate(
        {"capacity": {"storage": "1Ti"}, "storageClassName": "models", "mountOptions": ["noatime"]},
        {"resources": {"requests": {"storage": "1Gi"}}},
    )
    named = replace(MANIFEST, template=template)
    volume, claim = named.volume_body()["spec"], named.claim_body()["spec"]
    assert list(template.problems()) == []
    assert (volume["capacity"], volume["mountOptions"]) == ({"storage": "1Ti"}, ["ro", "noatime"])
    assert volume["storageClassName"] == claim["storageClassName"] == "models"
    assert claim["resources"] == {"requests": {"storage": "1Gi"}}


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (VolumeTemplate({"local": {"path": "/"}}), "spec.pvSpec.local: Larder sets this field itself"),
        (VolumeTemplate({"csi": {"driver": "d"}}), "spec.pvSpec.csi: a ClusterModelCache keeps its files on the disks"),
        (VolumeTemplate({"mountOptions": ["rw"]}), "write a list with any of"),
        (VolumeTemplate({"mountOptions": "ro"}), "write a list"),
        (VolumeTemplate({"mountOptions": ["rw,noatime"]}), "write a list with any of"),
        (VolumeTemplate({"mountOptions": [{"noatime": True}]}), "write a list with any of"),
        (VolumeTemplate({}, {"volumeName": "x"}), "spec.pvcSpec.volumeName: Larder sets"),
    ],
)
def test_a_template_that_would_change_larders_own_fields_is_a_problem(template: VolumeTemplate, message: str) -> None:
    assert message in " ".join(template.problems())


def test_a_template_may_repeat_our_values_but_not_change_them() -> None:
    stated = {"volumeMode": "Filesystem", "persistentVolumeReclaimPolicy": "Retain"}
    assert list(VolumeTemplate(stated, {"volumeMode": "Filesystem"}).problems()) == []
    other = {"volumeMode": "Block", "persistentVolumeReclaimPolicy": "Delete"}
    assert len(list(VolumeTemplate(other, {"volumeMode": "Block"}).problems())) == 3


NAMES = st.from_regex(r"[a-z]([-a-z.]{0,250}[a-z])?", fullmatch=True)


@given(NAMES, NAMES)
def test_generated_names_are_valid_object_names(name: str, namespace: str) -> None:
    wanted = SnapshotKey(name, "r")
    for made in (
        hashed_name(wanted),
        waiting_name(wanted),
        *volume_names(namespace[:63], name),
        *volume_names(namespace[:63], hashed_name(wanted)),
    ):
        assert len(made) <= 253
        assert made[-1].isalnum()


def test_names_stay_different_after_shortening() -> None:
    long = "m" * 250
    one, other = SnapshotKey(f"{long}a", "r"), SnapshotKey(f"{long}b", "r")
    assert len({hashed_name(one), hashed_name(other), waiting_name(one), waiting_name(other)}) == 4
    assert volume_names("ns", f"{long}a")[0] != volume_names("ns", f"{long}b")[0]
    assert volume_names("c", "a-b")[0] == volume_names("b-c", "a")[0]  # the reason for the second name
    assert volume_names("c", "a-b")[1] != volume_names("b-c", "a")[1]


@pytest.mark.parametrize(
    "text",
    [
        "",
        ",",
        "=",
        "a=",
        "=b@c",
        "a=b",
        "a=@c",
        "a=b@",
        "a=b@c@d",
        ",".join(f"a{i}=b@c" for i in range(33)),
        "a=b@" + "c" * 20_000,
    ],
)
def test_an_invalid_claims_annotation_is_ignored(text: str) -> None:
    found: dict[str, Any] = read_claims({CLAIMS_ANNOTATION: text})
    assert found == {}


def test_claims_are_read_as_they_were_written() -> None:
    claims = {"a": SnapshotKey("x", "1"), "b": SnapshotKey("team_y", "2")}
    assert read_claims({CLAIMS_ANNOTATION: write_claims(claims)}) == claims
