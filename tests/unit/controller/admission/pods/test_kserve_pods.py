"""Pods of KServe, with and without a request for the cache."""

from dataclasses import replace
from typing import Any

import pytest

from controller.admission.catalog.memory import MemoryCatalog
from controller.admission.pods.pod_annotations import read_models
from controller.admission.pods.pod_changes import pod_changes
from controller.admission.settings import AdmissionSettings
from rig.pods import BASE_MODEL, ENABLE_CACHE, KSERVE_URI, Rewrite, initializer, kserve_pod, plain_pod
from shared.json_object import Json
from shared.names import USER_LABEL, ready_label, snapshot_label, uses_label

MOUNT = {"name": "kserve-pvc-source", "mountPath": "/mnt/models", "readOnly": True}
WHY = "larder.dev/not-cached"


def test_the_download_is_replaced_by_the_cache(rewrite: Rewrite) -> None:
    after, warnings = rewrite(kserve_pod("p", "s3://bucket/m"))
    spec = after["spec"]
    assert warnings == ()
    assert "initContainers" not in spec
    assert spec["volumes"] == [
        {"name": "kserve-pvc-source", "hostPath": {"path": "/var/lib/larder/models/short/r1", "type": "Directory"}}
    ]
    assert spec["containers"][0]["volumeMounts"] == [MOUNT]
    assert "env" not in spec["containers"][0]
    assert spec["nodeSelector"] == {ready_label("short"): "true", snapshot_label("short", "r1"): "true"}
    assert read_models(after) == [("short", "r1")]
    assert after["metadata"]["labels"] == {
        uses_label("short"): "true",
        USER_LABEL: "true",
        "serving.kserve.io/inferenceservice": "p",
    }
    annotations = after["metadata"]["annotations"]
    assert annotations["larder.dev/source-uri"] == "s3://bucket/m"
    assert KSERVE_URI not in annotations, "or KServe's webhook would add the download again"


@pytest.mark.parametrize(
    ("uri", "model", "sub_path"),
    [
        ("s3://bucket/m/", "short", None),
        ("s3://bucket/m/x/y.bin", "short", "x/y.bin"),
        ("s3://bucket/m/sub", "long", None),
        ("s3://bucket/m/sub/deep/", "long", "deep"),
        ("hf://o/m:v1", "hub", None),
        ("hf://o/m@v1", "hub", None),
    ],
)
def test_the_path_beyond_the_cached_uri_becomes_the_sub_path(
    uri: str, model: str, sub_path: str | None, rewrite: Rewrite
) -> None:
    after, _ = rewrite(kserve_pod("p", uri))
    assert read_models(after)[0][0] == model
    assert after["spec"]["containers"][0]["volumeMounts"][0].get("subPath") == sub_path


@pytest.mark.parametrize(
    "uri", ["s3://bucket/m2", "s3://bucket/m-chat/x", "s3://other/m", "hf://o/m", "hf://o/m:v2", "gs://b/m"]
)
def test_a_pod_whose_uri_matches_no_cache_keeps_its_download(uri: str, rewrite: Rewrite) -> None:
    pod = kserve_pod("p", uri)
    after, warnings = rewrite(pod)
    why = after["metadata"]["annotations"].pop(WHY)
    assert after == pod
    assert warnings == (f"model not cached: {why}",)


@pytest.mark.parametrize("value", ["false", "False", "yes", ""])
def test_a_pod_whose_annotation_is_not_true_is_left_alone(value: str, rewrite: Rewrite) -> None:
    pod = kserve_pod("p", "s3://bucket/m", enable=value)
    after, warnings = rewrite(pod)
    assert ENABLE_CACHE in after["metadata"]["annotations"].pop(WHY)
    assert after == pod
    assert warnings


def test_switching_the_cache_off_leaves_all_downloads_unchanged(catalog: MemoryCatalog) -> None:
    off = AdmissionSettings(model_cache_enabled=False)
    found = pod_changes(kserve_pod("p", "s3://bucket/m"), "default", catalog, off)
    assert [op["path"] for op in found.patch] == ["/metadata/annotations/larder.dev~1not-cached"]
    assert "modelCache.enabled: false" in found.warnings[0]
    assert catalog.lookups == 0


@pytest.mark.parametrize(
    ("change", "phrase"),
    [
        ({"deleting": True}, "is being deleted"),
        ({"serving_revision": ""}, "is not resolved yet"),
        ({"reason": "NameConflict", "message": "older"}, "NameConflict"),
    ],
)
def test_an_unusable_cache_is_not_used(
    change: dict[str, Any], phrase: str, catalog: MemoryCatalog, rewrite: Rewrite
) -> None:
    catalog.cluster_caches[1] = replace(catalog.cluster_caches[1], **change)
    pod = kserve_pod("p", "s3://bucket/m/sub")
    after, _ = rewrite(pod)
    assert phrase in after["metadata"]["annotations"].pop(WHY)
    assert after == pod


def test_the_uri_comes_from_the_initializer_without_the_annotation(rewrite: Rewrite) -> None:
    pod = kserve_pod("p", "s3://bucket/m")
    del pod["metadata"]["annotations"][KSERVE_URI]
    after, _ = rewrite(pod)
    assert read_models(after) == [("short", "r1")]


def test_several_downloads_in_one_pod_are_left_alone(rewrite: Rewrite) -> None:
    pod = kserve_pod("p", "s3://bucket/m")
    pod["spec"]["initContainers"] = [
        initializer(["s3://bucket/m", "/mnt/models", "s3://bucket/adapter", "/mnt/adapter"])
    ]
    after, _ = rewrite(pod)
    assert after["metadata"]["annotations"].pop(WHY)
    assert after == pod


def test_a_pod_that_kserve_did_not_make_gets_a_warning_and_no_volume(rewrite: Rewrite) -> None:
    after, warnings = rewrite(plain_pod("p", {ENABLE_CACHE: "true"}))
    assert KSERVE_URI in warnings[0]
    assert "volumes" not in after["spec"]


def test_other_containers_and_volumes_are_kept(rewrite: Rewrite) -> None:
    pod = kserve_pod("p", "s3://bucket/m")
    pod["spec"]["initContainers"].append({"name": "mine", "volumeMounts": [{"name": "tmp", "mountPath": "/scratch"}]})
    pod["spec"]["volumes"].append({"name": "tmp", "emptyDir": {}})
    pod["spec"]["containers"].append(
        {"name": "transformer", "volumeMounts": [{"name": "tmp", "mountPath": "/scratch"}]}
    )
    after, _ = rewrite(pod)
    assert [c["name"] for c in after["spec"]["initContainers"]] == ["mine"]
    assert [v["name"] for v in after["spec"]["volumes"]] == ["tmp", "kserve-pvc-source"]
    assert after["spec"]["containers"][1] == pod["spec"]["containers"][1]


def test_every_reader_of_the_download_reads_the_cache(rewrite: Rewrite) -> None:
    pod = kserve_pod("p", "s3://bucket/m")
    pod["spec"]["containers"].append(
        {"name": "two", "volumeMounts": [{"name": "kserve-provision-location", "mountPath": "/data"}]}
    )
    after, _ = rewrite(pod)
    assert after["spec"]["containers"][1]["volumeMounts"] == [MOUNT | {"mountPath": "/data"}]


def llm_service_pod(uri: str, at: str) -> Json:
    """Return a pod of an LLMInferenceService: `main` and, below the model's path, its scheduler's tokenizer read it."""
    pod = kserve_pod("chat-kserve-0", uri)
    del pod["metadata"]["annotations"][KSERVE_URI]
    pod["metadata"]["labels"] = {"app.kubernetes.io/part-of": "llminferenceservice", "app.kubernetes.io/name": "chat"}
    server = pod["spec"]["containers"][0] | {"name": "main"}
    server["volumeMounts"] = [{"name": "kserve-provision-location", "mountPath": at, "readOnly": True}]
    pod["spec"]["containers"] = [server]
    pod["spec"]["initContainers"].append({"name": "llm-d-routing-sidecar", "restartPolicy": "Always"})
    return pod


@pytest.mark.parametrize("at", ["/mnt/models", "/mnt/models/base"])
def test_the_server_of_an_llm_service_reads_the_cache_where_it_read_its_download(at: str, rewrite: Rewrite) -> None:
    after, warnings = rewrite(llm_service_pod("s3://bucket/m", at))
    assert warnings == ()
    assert [c["name"] for c in after["spec"]["initContainers"]] == ["llm-d-routing-sidecar"]
    assert after["spec"]["containers"][0]["volumeMounts"] == [MOUNT | {"mountPath": at}], "no mount in another one"
    assert [v["name"] for v in after["spec"]["volumes"]] == ["kserve-pvc-source"]
    assert read_models(after) == [("short", "r1")]


def test_a_pod_without_the_mount_gets_it_in_the_server(rewrite: Rewrite) -> None:
    pod = kserve_pod("p", "s3://bucket/m")
    pod["spec"]["containers"] = [{"name": "agent"}, {"name": "kserve-container"}]
    after, _ = rewrite(pod)
    assert after["spec"]["containers"] == [{"name": "agent"}, {"name": "kserve-container", "volumeMounts": [MOUNT]}]


@pytest.mark.parametrize(
    "obstacle",
    [
        {"volumes": [{"name": "kserve-provision-location", "hostPath": {"path": "/data"}}]},
        {"volumes": [{"name": "kserve-pvc-source", "persistentVolumeClaim": {"claimName": "x"}}]},
        {"nodeSelector": {ready_label("short"): "no"}},
    ],
)
def test_a_conflicting_volume_mount_or_selector_leaves_the_download_unchanged(
    obstacle: dict[str, Any], rewrite: Rewrite
) -> None:
    pod = kserve_pod("p", "s3://bucket/m")
    pod["spec"] |= obstacle
    after, warnings = rewrite(pod)
    assert after["metadata"]["annotations"].pop(WHY)
    assert after == pod
    assert warnings


def test_a_second_pass_of_kserve_is_undone(rewrite: Rewrite) -> None:
    once, _ = rewrite(kserve_pod("p", "s3://bucket/m/x"))
    fresh = kserve_pod("p", "s3://bucket/m/x")["spec"]
    once["spec"]["initContainers"] = fresh["initContainers"]
    once["spec"]["volumes"] += fresh["volumes"]
    once["spec"]["containers"][0]["volumeMounts"] += fresh["containers"][0]["volumeMounts"]
    twice, _ = rewrite(once)
    assert twice == rewrite(kserve_pod("p", "s3://bucket/m/x"))[0]


def test_a_path_missing_from_the_cache_leaves_the_download_unchanged(catalog: MemoryCatalog, rewrite: Rewrite) -> None:
    catalog.paths = {"short": {"config.json", "onnx/model.onnx"}}
    assert (
        "onnx"
        in rewrite(kserve_pod("p", "s3://bucket/m/onnx"))[0]["spec"]["containers"][0]["volumeMounts"][0]["subPath"]
    )
    after, _ = rewrite(kserve_pod("p", "s3://bucket/m/nothing"))
    assert "no file or directory 'nothing'" in after["metadata"]["annotations"][WHY]


def test_a_part_of_a_cache_whose_files_are_unknown_is_left_alone(catalog: MemoryCatalog, rewrite: Rewrite) -> None:
    catalog.paths = {}
    pod = kserve_pod("p", "s3://bucket/m/x")
    after, warnings = rewrite(pod)
    assert "the files of ClusterModelCache short have not been read yet" in after["metadata"]["annotations"].pop(WHY)
    assert after == pod
    assert warnings
    assert read_models(rewrite(kserve_pod("p", "s3://bucket/m"))[0]) == [("short", "r1")], "the whole needs no list"


def test_one_file_of_a_cache_is_put_into_the_directory_of_the_download(rewrite: Rewrite) -> None:
    pod = kserve_pod("p", "s3://bucket/m/x/y.bin")
    reader = {"name": "two", "volumeMounts": [{"name": "kserve-provision-location", "mountPath": "/data/"}]}
    pod["spec"]["containers"].append(reader)
    after, _ = rewrite(pod)
    file = MOUNT | {"mountPath": "/mnt/models/y.bin", "subPath": "x/y.bin"}
    assert [c["volumeMounts"] for c in after["spec"]["containers"]] == [[file], [file | {"mountPath": "/data/y.bin"}]]


def test_one_file_is_put_into_a_server_without_the_mount(rewrite: Rewrite) -> None:
    pod = kserve_pod("p", "s3://bucket/m/sub/one.bin")
    pod["spec"]["containers"] = [{"name": "kserve-container"}]
    after, _ = rewrite(pod)
    file = MOUNT | {"mountPath": "/mnt/models/one.bin", "subPath": "one.bin"}
    assert after["spec"]["containers"] == [{"name": "kserve-container", "volumeMounts": [file]}]


def test_the_next_shorter_cache_serves_where_the_longest_is_unusable(catalog: MemoryCatalog, rewrite: Rewrite) -> None:
    catalog.cluster_caches[1] = replace(catalog.cluster_caches[1], deleting=True)
    catalog.paths["short"] = {"sub/config.json"}
    after, warnings = rewrite(kserve_pod("p", "s3://bucket/m/sub"))
    assert (read_models(after), warnings) == ([("short", "r1")], ())
    assert after["spec"]["containers"][0]["volumeMounts"] == [MOUNT | {"subPath": "sub"}]


def test_long_reasons_are_cut(rewrite: Rewrite) -> None:
    after, warnings = rewrite(kserve_pod("p", f"s3://bucket/{'x' * 1000}"))
    assert len(after["metadata"]["annotations"][WHY]) <= 220
    assert len(warnings[0]) <= 256


def test_a_pod_may_request_a_base_model_and_a_kserve_cache(rewrite: Rewrite) -> None:
    after, _ = rewrite(kserve_pod("p", "s3://bucket/m", annotations={BASE_MODEL: "llama"}))
    assert read_models(after) == [("llama", "c0ffee"), ("short", "r1")]
    assert len(after["spec"]["nodeSelector"]) == 4
    paths = [m["mountPath"] for m in after["spec"]["containers"][0]["volumeMounts"]]
    assert sorted(paths) == ["/mnt/models", "/opt/ml/model"]
