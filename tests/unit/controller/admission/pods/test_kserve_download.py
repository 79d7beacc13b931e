"""A cache replaces the download that KServe's own init container describes, and nothing else."""

import re
from typing import Any

import pytest

from controller.admission.catalog.memory import MemoryCatalog
from controller.admission.errors import ModelNotReady, StorePathReserved
from controller.admission.pods.kserve_download import Download, UnclearDownload, find_download
from controller.admission.pods.pod_annotations import NOT_CACHED, SOURCE_URI, read_models
from controller.admission.pods.pod_changes import pod_changes
from controller.admission.pods.volumes import pod_volumes
from controller.admission.settings import AdmissionSettings
from rig.pods import ENABLE_CACHE, KSERVE_URI, Rewrite, initializer, kserve_pod, plain_pod
from shared.json_object import Json

ROOT = "/var/lib/larder"
URI = "s3://bucket/m"
OURS = {"name": "kserve-pvc-source", "mountPath": "/mnt/models", "readOnly": True}


def pod_of_uris(*pairs: str, volume: str = "mnt-models", path: str = "/mnt/models") -> Json:
    """Return a pod as KServe creates it for `storageUris`: no annotation, and a volume named after its path."""
    pod = kserve_pod("p", URI)
    del pod["metadata"]["annotations"][KSERVE_URI]
    mount = {"name": volume, "mountPath": path}
    pod["spec"]["volumes"] = [{"name": volume, "emptyDir": {}}]
    pod["spec"]["initContainers"] = [initializer(pairs) | {"volumeMounts": [mount]}]
    pod["spec"]["containers"][0]["volumeMounts"] = [mount | {"readOnly": True}]
    return pod


def left_alone(rewrite: Rewrite, pod: Json) -> str:
    """Return the reason why a pod was left unchanged."""
    after, warnings = rewrite(pod)
    why: str = after["metadata"]["annotations"].pop(NOT_CACHED)
    assert after == pod
    assert warnings == (f"model not cached: {why}",)
    return why


def test_the_model_is_mounted_at_the_path_of_the_storage_initializer(rewrite: Rewrite) -> None:
    after, warnings = rewrite(pod_of_uris(URI, "/mnt/other/", volume="mnt-other", path="/mnt/other"))
    assert warnings == ()
    assert [v["name"] for v in after["spec"]["volumes"]] == ["kserve-pvc-source"]
    assert after["spec"]["containers"][0]["volumeMounts"] == [OURS | {"mountPath": "/mnt/other"}]
    assert after["metadata"]["annotations"][SOURCE_URI] == URI


def test_a_claim_beside_the_download_is_kept(rewrite: Rewrite) -> None:
    pod = pod_of_uris(URI, "/mnt/models/base", volume="mnt-models-base", path="/mnt/models/base")
    claim = {"name": "mnt-adapter", "persistentVolumeClaim": {"claimName": "adapters"}}
    at = {"name": "mnt-adapter", "mountPath": "/mnt/adapter", "readOnly": True}
    pod["spec"]["volumes"].append(claim)
    pod["spec"]["containers"][0]["volumeMounts"].append(at)
    after, _ = rewrite(pod)
    assert claim in after["spec"]["volumes"]
    assert after["spec"]["containers"][0]["volumeMounts"] == [at, OURS | {"mountPath": "/mnt/models/base"}]


def test_a_pod_with_a_claim_inside_the_download_is_left_alone(rewrite: Rewrite) -> None:
    pod = pod_of_uris(URI, "/mnt/models")
    pod["spec"]["volumes"].append({"name": "mnt-models-lora", "persistentVolumeClaim": {"claimName": "adapters"}})
    pod["spec"]["containers"][0]["volumeMounts"].append({"name": "mnt-models-lora", "mountPath": "/mnt/models/lora"})
    assert "mounts volume 'mnt-models-lora' at /mnt/models/lora, where the model is" in left_alone(rewrite, pod)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (
            [URI, "/mnt/models/a", "s3://o/b", "/mnt/models/b"],
            f"downloads 2 URIs, .*: {URI} to /mnt/models/a, s3://o/b",
        ),
        ([URI], "are .*, not one URI and one absolute path"),
        ([URI, "models"], "not one URI and one absolute path"),
        ([URI, "/mnt/models", "--quiet"], "not one URI and one absolute path"),
        ([], "not one URI and one absolute path"),
        ([URI, "/mnt/elsewhere"], f"downloads {URI} to /mnt/elsewhere, where it mounts no volume"),
    ],
)
def test_arguments_that_are_not_understood_leave_the_pod_alone(
    arguments: list[str], why: str, rewrite: Rewrite
) -> None:
    assert re.search(why, left_alone(rewrite, pod_of_uris(*arguments)))


@pytest.mark.parametrize(
    ("volume", "why"),
    [
        ({"persistentVolumeClaim": {"claimName": "kept"}}, "in volume 'mnt-models', which is not the emptyDir"),
        ({"hostPath": {"path": "/data"}}, "in volume 'mnt-models', which is not the emptyDir"),
    ],
)
def test_a_download_into_a_lasting_volume_is_left_alone(volume: dict[str, Any], why: str, rewrite: Rewrite) -> None:
    pod = pod_of_uris(URI, "/mnt/models")
    pod["spec"]["volumes"] = [{"name": "mnt-models"} | volume]
    assert why in left_alone(rewrite, pod)


def test_the_argument_decides_where_the_annotation_has_a_placeholder(rewrite: Rewrite) -> None:
    pod = kserve_pod("p", URI)
    pod["metadata"]["annotations"][KSERVE_URI] = "<scheme-placeholder>://m"
    after, _ = rewrite(pod)
    assert read_models(after) == [("short", "r1")]
    assert after["metadata"]["annotations"][SOURCE_URI] == URI
    assert KSERVE_URI not in after["metadata"]["annotations"]


def test_a_server_that_needs_to_write_is_warned(rewrite: Rewrite) -> None:
    after, warnings = rewrite(kserve_pod("p", URI, annotations={"storage.kserve.io/readonly": "false"}))
    assert after["spec"]["containers"][0]["volumeMounts"] == [OURS]
    (warning,) = warnings
    assert 'storage.kserve.io/readonly is "false", but a cached model is shared and always mounted read-only' in warning
    assert ENABLE_CACHE in warning


@pytest.mark.parametrize("component", ["transformer", "explainer"])
def test_only_a_predictor_without_a_known_model_gets_a_warning(component: str, rewrite: Rewrite) -> None:
    pod = plain_pod("p", {ENABLE_CACHE: "true"})
    pod["metadata"]["labels"] = {"serving.kserve.io/inferenceservice": "s", "component": component}
    assert rewrite(pod) == (pod, ())
    pod["metadata"]["labels"]["component"] = "predictor"
    assert "its model is unknown" in left_alone(rewrite, pod)


def test_a_transformer_that_downloads_is_given_the_cache(rewrite: Rewrite) -> None:
    pod = kserve_pod("p", URI)
    pod["metadata"]["labels"]["component"] = "transformer"
    assert read_models(rewrite(pod)[0]) == [("short", "r1")]


def test_before_kserve_has_added_its_container_nothing_is_changed(rewrite: Rewrite) -> None:
    pod = kserve_pod("p", URI)
    fresh = pod["spec"]
    pod["spec"] = {"containers": [{"name": "kserve-container"}]}
    after, _ = rewrite(pod)
    assert "KServe has not added one yet" in after["metadata"]["annotations"][NOT_CACHED]
    after["spec"] = fresh
    assert rewrite(after) == rewrite(kserve_pod("p", URI)), "the pod gets the cache once KServe has added it"


def recreated(rewrite: Rewrite, pod: Json) -> Json:
    """Return a pod as in a backup: as it was admitted, with its node."""
    after, _ = rewrite(pod)
    after["spec"]["nodeName"] = "n"
    return after


def test_a_recreated_pod_gets_the_serving_revision(catalog: MemoryCatalog, rewrite: Rewrite) -> None:
    pod = recreated(rewrite, kserve_pod("p", "s3://bucket/m/sub/deep"))
    assert read_models(pod) == [("long", "r2")]
    del catalog.cluster_caches[1]
    catalog.paths["short"] = {"sub/deep/config.json"}
    after, _ = rewrite(pod)
    assert read_models(after) == [("short", "r1")]
    assert after["spec"]["containers"][0]["volumeMounts"] == [OURS | {"subPath": "sub/deep"}]
    assert len(after["spec"]["nodeSelector"]) == 2


def test_the_single_file_of_a_recreated_pod_keeps_its_path(rewrite: Rewrite) -> None:
    pod = recreated(rewrite, kserve_pod("p", "s3://bucket/m/sub/one.bin"))
    assert rewrite(pod)[0] == pod


def test_a_recreated_pod_without_a_cache_downloads_again(catalog: MemoryCatalog, rewrite: Rewrite) -> None:
    pod = recreated(rewrite, kserve_pod("p", URI))
    catalog.cluster_caches.clear()
    after, _ = rewrite(pod)
    assert after["metadata"]["annotations"][KSERVE_URI] == URI, "so that KServe's webhook adds its container"
    assert after["spec"]["volumes"] == after["spec"]["containers"][0]["volumeMounts"] == []
    assert "nodeSelector" not in after["spec"]
    assert read_models(after) == []


def test_a_download_that_cannot_be_added_again_is_refused(
    catalog: MemoryCatalog, rewrite: Rewrite, settings: AdmissionSettings
) -> None:
    pod = recreated(rewrite, pod_of_uris(URI, "/mnt/other", volume="mnt-other", path="/mnt/other"))
    catalog.cluster_caches.clear()
    with pytest.raises(ModelNotReady, match=r"mounted at /mnt/other as volume 'kserve-pvc-source'; .* create the pod"):
        pod_changes(pod, "default", catalog, settings)


def test_a_forged_cache_volume_in_a_pod_without_a_uri_is_refused(
    catalog: MemoryCatalog, settings: AdmissionSettings
) -> None:
    pod = plain_pod("p", {ENABLE_CACHE: "true"})
    pod["spec"]["volumes"] = [{"name": "kserve-pvc-source", "hostPath": {"path": f"{ROOT}/models/short/r1"}}]
    pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "kserve-pvc-source", "mountPath": "/x"}]
    with pytest.raises(StorePathReserved, match=r"volume 'kserve-pvc-source' mounts host path .* \(mounted at /x\)"):
        pod_changes(pod, "default", catalog, settings)


def test_a_download_is_found_with_its_uri_path_and_volume_unless_it_is_mounted_in_part() -> None:
    pod = pod_of_uris(URI, "/mnt/other", volume="mnt-other", path="/mnt/other")
    volumes = pod_volumes(pod, "default", MemoryCatalog(), AdmissionSettings())
    assert find_download(pod, volumes) == Download(URI, "/mnt/other", "mnt-other")
    pod["spec"]["initContainers"][0]["volumeMounts"][0]["subPath"] = "part"
    assert isinstance(found := find_download(pod, volumes), UnclearDownload)
    assert "in volume 'mnt-other', which it mounts only in part" in found.reason
