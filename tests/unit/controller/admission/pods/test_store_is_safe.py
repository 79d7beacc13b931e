"""Whatever a tenant writes into a pod, admission leaves no writable mount of the store and no false annotation."""

from typing import Any

import pytest

from controller.admission.catalog.memory import MemoryCatalog
from controller.admission.errors import StorePathReserved
from controller.admission.pods.ephemeral_containers import make_store_read_only
from controller.admission.pods.pod_changes import pod_changes
from controller.admission.settings import AdmissionSettings
from rig.pods import Rewrite, base_model_pod, kserve_pod, plain_pod
from shared.names import ready_label, snapshot_label, uses_label

ROOT = "/var/lib/larder"
ELSEWHERE = ["/var/lib/larderer", "/var/lib/other", "/data", "/var/lib/larder-2/models"]


@pytest.mark.parametrize(
    "path",
    [ROOT, f"{ROOT}/", f"{ROOT}/blobs", f"{ROOT}/models/llama/c0ffee", "/var/lib", "/var", "/", "//var//lib/larder"],
)
@pytest.mark.parametrize("pod", [base_model_pod("p", "llama"), kserve_pod("p", "s3://none/m")])
def test_a_host_path_that_reaches_the_store_is_refused(
    path: str, pod: dict[str, Any], catalog: MemoryCatalog, settings: AdmissionSettings
) -> None:
    pod = pod | {"spec": pod["spec"] | {"volumes": [{"name": "mine", "hostPath": {"path": path}}]}}
    with pytest.raises(StorePathReserved, match="volume 'mine' mounts"):
        pod_changes(pod, "default", catalog, settings)


@pytest.mark.parametrize("path", ELSEWHERE)
def test_other_host_paths_are_ignored(path: str, rewrite: Rewrite) -> None:
    pod = base_model_pod("p", "llama")
    pod["spec"]["volumes"] = [{"name": "mine", "hostPath": {"path": path}}]
    assert len(rewrite(pod)[0]["spec"]["volumes"]) == 2


@pytest.mark.parametrize("container", ["main", "istio-proxy"])
@pytest.mark.parametrize(
    "extra", [{}, {"readOnly": False}, {"subPath": "made-by-kubelet"}, {"subPathExpr": "$(X)"}, {"mountPath": "/rw/"}]
)
def test_a_mount_of_our_volume_written_beforehand_becomes_ours(
    container: str, extra: dict[str, Any], rewrite: Rewrite
) -> None:
    pod = base_model_pod("p", "llama", container)
    pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "larder-model", "mountPath": "/rw"} | extra]
    after, _ = rewrite(pod)
    mounts = after["spec"]["containers"][0]["volumeMounts"]
    assert {"name": "larder-model", "mountPath": "/rw", "readOnly": True} in mounts
    assert all(m["readOnly"] is True and m.keys() == {"name", "mountPath", "readOnly"} for m in mounts)


def test_a_cache_volume_mounted_beforehand_becomes_ours(rewrite: Rewrite) -> None:
    pod = kserve_pod("p", "s3://bucket/m/x")
    pod["spec"]["containers"].append({"name": "c", "volumeMounts": [{"name": "kserve-pvc-source", "mountPath": "/rw"}]})
    after, _ = rewrite(pod)
    assert after["spec"]["containers"][1]["volumeMounts"] == [
        {"name": "kserve-pvc-source", "mountPath": "/rw", "readOnly": True, "subPath": "x"}
    ]


def test_another_snapshot_under_our_name_is_replaced(rewrite: Rewrite) -> None:
    pod = base_model_pod("p", "llama")
    pod["spec"]["volumes"] = [{"name": "larder-model", "hostPath": {"path": f"{ROOT}/models/private/r"}}]
    after, _ = rewrite(pod)
    assert after["spec"]["volumes"] == [
        {"name": "larder-model", "hostPath": {"path": f"{ROOT}/models/llama/c0ffee", "type": "Directory"}}
    ]


def test_forged_marks_of_models_not_requested_are_removed(rewrite: Rewrite) -> None:
    pod = plain_pod("p", {"larder.dev/models": "private@r", "kept": "x"})
    pod["metadata"]["labels"] = {uses_label("private"): "true", "app": "x"}
    pod["spec"]["nodeSelector"] = {
        ready_label("private"): "true",
        snapshot_label("private", "r"): "true",
        ready_label("of-the-user"): "true",
    }
    after, _ = rewrite(pod)
    assert after["metadata"]["annotations"] == {"kept": "x"}
    assert after["metadata"]["labels"] == {"app": "x"}
    assert after["spec"]["nodeSelector"] == {ready_label("of-the-user"): "true"}


def test_a_copied_pod_that_no_longer_requests_its_model_loses_the_volume(rewrite: Rewrite) -> None:
    after, _ = rewrite(base_model_pod("p", "llama"))
    del after["metadata"]["annotations"]["ome.io/base-model-name"]
    copied, _ = rewrite(after)
    assert not copied["spec"].get("volumes")
    assert not any(container.get("volumeMounts") for container in copied["spec"]["containers"])


def _debugged(rewrite: Rewrite, *mounts: dict[str, Any]) -> dict[str, Any]:
    pod: dict[str, Any] = rewrite(base_model_pod("p", "llama"))[0]
    pod["spec"]["ephemeralContainers"] = [{"name": "debug", "volumeMounts": list(mounts)}]
    return pod


def test_an_ephemeral_container_gets_the_store_read_only(rewrite: Rewrite) -> None:
    mount = {"name": "larder-model", "mountPath": "/rw", "readOnly": False}
    found = make_store_read_only(_debugged(rewrite, mount, {"name": "x", "mountPath": "/x"}), {}, ROOT)
    assert list(found.patch) == [
        {"op": "replace", "path": "/spec/ephemeralContainers/0/volumeMounts/0/readOnly", "value": True}
    ]
    assert found.warnings


def test_a_running_or_read_only_ephemeral_container_is_left_unchanged(rewrite: Rewrite) -> None:
    reading = _debugged(rewrite, {"name": "larder-model", "mountPath": "/r", "readOnly": True})
    running = _debugged(rewrite, {"name": "larder-model", "mountPath": "/rw"})
    assert make_store_read_only(reading, {}, ROOT).patch == ()
    assert make_store_read_only(running, running, ROOT).patch == ()
    assert make_store_read_only(plain_pod("p"), {}, ROOT).patch == ()
