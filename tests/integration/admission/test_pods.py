"""Pods with models, created through the real API server."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controller.admission.pods.pod_annotations import BASE_MODEL, MODELS
from rig.admission import AdmissionSite, later_webhook
from rig.pods import base_model_pod, kserve_pod, plain_pod
from rig.processes import wait_until
from rig.webhook_server import add_container, serve
from shared.names import ready_label, snapshot_label

SELECTORS = {ready_label("llama"): "true", snapshot_label("llama", "c0ffee"): "true"}
STRATEGIC = "application/strategic-merge-patch+json"


def _mount(container: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(m for m in container["volumeMounts"] if m["name"] == name)
    return found


def test_a_base_model_pod_is_rewritten(site: AdmissionSite) -> None:
    pod = site.create(base_model_pod("base", "llama"))
    assert pod["spec"]["nodeSelector"] == SELECTORS
    assert pod["spec"]["volumes"] == [
        {"name": "larder-model", "hostPath": {"path": "/var/lib/larder/models/llama/c0ffee", "type": "Directory"}}
    ]
    assert _mount(pod["spec"]["containers"][0], "larder-model")["readOnly"] is True
    assert pod["metadata"]["annotations"][MODELS] == "llama@c0ffee"
    assert len(site.server.calls.of("base")) == 1


def test_plain_pods_are_never_sent_for_review(site: AdmissionSite) -> None:
    for i in range(5):
        site.create(plain_pod(f"plain-{i}"))
        site.create(plain_pod(f"annotated-{i}", {"other": "x"}))
        assert site.server.calls.of(f"plain-{i}") == site.server.calls.of(f"annotated-{i}") == []


def test_pods_of_kube_system_are_never_sent_for_review(site: AdmissionSite) -> None:
    path = "/api/v1/namespaces/kube-system/pods?dryRun=All"
    wait_until(lambda: site.api.answers("/api/v1/namespaces/kube-system/serviceaccounts/default"), 60, "the account")
    pod = site.api.create(path, base_model_pod("system", "llama"))
    assert "nodeSelector" not in pod["spec"]
    assert site.server.calls.of("system") == []


def test_a_kserve_pod_is_rewritten(site: AdmissionSite) -> None:
    pod = site.create(kserve_pod("kserve", "s3://bucket/m/sub"))
    assert "initContainers" not in pod["spec"]
    assert [v["name"] for v in pod["spec"]["volumes"]] == ["kserve-pvc-source"]
    mount = _mount(pod["spec"]["containers"][0], "kserve-pvc-source")
    assert mount == {"name": "kserve-pvc-source", "mountPath": "/mnt/models", "readOnly": True, "subPath": "sub"}


def test_a_kserve_pod_with_a_uri_of_one_file_mounts_that_file(site: AdmissionSite) -> None:
    made = site.create(kserve_pod("file", "s3://bucket/m/one.bin"))
    mount = _mount(made["spec"]["containers"][0], "kserve-pvc-source")
    assert (mount["mountPath"], mount["subPath"]) == ("/mnt/models/one.bin", "one.bin")


def test_a_kserve_pod_outside_the_nodes_of_the_cache_keeps_its_download(site: AdmissionSite) -> None:
    pod = kserve_pod("outside", "s3://bucket/m/sub")
    pod["spec"]["nodeName"] = "elsewhere"
    made = site.create(pod)
    assert [c["name"] for c in made["spec"]["initContainers"]] == ["storage-initializer"]
    assert (
        "node elsewhere (spec.nodeName) does not belong to" in made["metadata"]["annotations"]["larder.dev/not-cached"]
    )


def test_a_pod_that_requests_a_part_is_reviewed_after_the_file_list_was_read(site: AdmissionSite) -> None:
    known = site.catalog.unread["m"] = site.catalog.paths.pop("m")
    made = site.create(kserve_pod("missing", "s3://bucket/m/nonexist/sub"))
    assert "no file or directory 'nonexist/sub'" in made["metadata"]["annotations"]["larder.dev/not-cached"]
    assert site.catalog.paths["m"] == known


def test_a_pod_without_a_cache_is_admitted_with_a_warning(site: AdmissionSite) -> None:
    answer = site.kubectl("create", "-f", "-", stdin=kserve_pod("uncached", "s3://other/m"))
    assert answer.returncode == 0
    assert "Warning: larder: model not cached: no ClusterModelCache holds s3://other/m" in answer.stderr
    pod = site.api.get(f"{site.pods}/uncached")
    assert pod["spec"]["initContainers"][0]["name"] == "storage-initializer"
    assert "s3://other/m" in pod["metadata"]["annotations"]["larder.dev/not-cached"]


def test_a_refusal_is_shown_with_its_reason_by_kubectl(site: AdmissionSite) -> None:
    answer = site.kubectl("create", "-f", "-", stdin=base_model_pod("refused", "lama"))
    assert answer.returncode != 0
    assert "admission webhook \"pods.larder.dev\" denied the request: there is no BaseModel 'lama'" in answer.stderr
    assert "ModelNotFound" in answer.stderr


def test_a_copy_of_a_rewritten_pod_is_not_changed(site: AdmissionSite) -> None:
    first = site.create(base_model_pod("first", "llama"))
    copy = {"metadata": {k: first["metadata"][k] for k in ("labels", "annotations")}, "spec": first["spec"]}
    second = site.create(copy | {"metadata": copy["metadata"] | {"name": "second"}})
    assert second["spec"] == first["spec"]
    assert second["metadata"]["annotations"] == first["metadata"]["annotations"]


@pytest.fixture
def sidecar(site: AdmissionSite, tmp_path: Path) -> Iterator[str]:
    """The name of a container that a foreign webhook adds after ours to pods with the annotation `later`."""
    with serve(add_container("sidecar"), tmp_path) as server, later_webhook(site.api, server):
        probe = plain_pod("probe", {"later": "x"})
        wait_until(lambda: _containers(site.api.create(f"{site.pods}?dryRun=All", probe)) > 1, 60, "the other webhook")
        yield "sidecar"


def _containers(pod: dict[str, Any]) -> int:
    return len(pod["spec"]["containers"])


def test_a_container_added_by_a_later_webhook_gets_the_model_in_a_second_pass(
    site: AdmissionSite, sidecar: str
) -> None:
    body = base_model_pod("twice", "llama")
    body["metadata"]["annotations"]["later"] = "x"
    pod = site.create(body)
    assert len(site.server.calls.of("twice")) == 2
    added = next(c for c in pod["spec"]["containers"] if c["name"] == sidecar)
    assert _mount(added, "larder-model")["readOnly"] is True
    assert pod["spec"]["nodeSelector"] == SELECTORS
    assert len(pod["spec"]["volumes"]) == 1


def _debug(site: AdmissionSite, pod: str, container_name: str, **mount: object) -> dict[str, Any]:
    container = {"name": container_name, "image": "none", "volumeMounts": [{"mountPath": "/rw", **mount}]}
    patched = site.api.patch(
        f"{site.pods}/{pod}/ephemeralcontainers", {"spec": {"ephemeralContainers": [container]}}, STRATEGIC
    )
    found: dict[str, Any] = next(c for c in patched["spec"]["ephemeralContainers"] if c["name"] == container_name)
    return found


def test_an_ephemeral_container_cannot_write_to_the_model(site: AdmissionSite) -> None:
    site.create(base_model_pod("debugged", "llama"))
    assert _debug(site, "debugged", "one", name="larder-model")["volumeMounts"][0]["readOnly"] is True
    gone = dict.fromkeys((MODELS, BASE_MODEL))
    site.api.patch(f"{site.pods}/debugged", {"metadata": {"annotations": gone}})
    two = _debug(site, "debugged", "two", name="larder-model", readOnly=False)
    assert two["volumeMounts"][0]["readOnly"] is True


def test_a_pod_that_mounts_the_store_itself_is_refused(site: AdmissionSite) -> None:
    pod = base_model_pod("thief", "llama")
    pod["spec"]["volumes"] = [{"name": "all", "hostPath": {"path": "/var/lib/larder"}}]
    answer = site.kubectl("create", "-f", "-", stdin=pod)
    assert "volume 'all' mounts host path /var/lib/larder" in answer.stderr
