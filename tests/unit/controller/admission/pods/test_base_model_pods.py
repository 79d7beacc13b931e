"""Pods that name a base model."""

from dataclasses import replace
from typing import Any

import pytest

from controller.admission.catalog.memory import MemoryCatalog
from controller.admission.catalog.port import CatalogModel
from controller.admission.errors import InvalidPath, ModelNotFound, ModelNotReady, MountConflict, NamespaceNotAllowed
from controller.admission.pods.pod_annotations import read_models
from controller.admission.pods.pod_changes import pod_changes
from controller.admission.pods.result import PodChanges
from controller.admission.settings import AdmissionSettings
from rig.pods import Rewrite, base_model_pod, plain_pod
from shared.names import USER_LABEL, ready_label, snapshot_label, uses_label

SELECTORS = {ready_label("llama"): "true", snapshot_label("llama", "c0ffee"): "true"}
MOUNT = {"name": "larder-model", "mountPath": "/opt/ml/model", "readOnly": True}


def test_a_plain_pod_is_answered_without_a_lookup(catalog: MemoryCatalog, settings: AdmissionSettings) -> None:
    assert pod_changes(plain_pod("p", {"other": "x"}), "default", catalog, settings) == PodChanges()
    assert catalog.lookups == 0


def test_a_pod_gets_selectors_mount_variable_and_labels(rewrite: Rewrite) -> None:
    pod, warnings = rewrite(base_model_pod("p", "llama"))
    spec = pod["spec"]
    assert warnings == ()
    assert spec["nodeSelector"] == SELECTORS
    assert spec["volumes"] == [
        {"name": "larder-model", "hostPath": {"path": "/var/lib/larder/models/llama/c0ffee", "type": "Directory"}}
    ]
    assert spec["containers"][0]["volumeMounts"] == [MOUNT]
    assert spec["containers"][0]["env"] == [{"name": "MODEL_PATH", "value": "/opt/ml/model"}]
    assert pod["metadata"]["labels"] == {uses_label("llama"): "true", USER_LABEL: "true"}
    assert read_models(pod) == [("llama", "c0ffee")]


def test_the_namespaces_own_model_takes_precedence(catalog: MemoryCatalog, settings: AdmissionSettings) -> None:
    patch = pod_changes(base_model_pod("p", "llama"), "team", catalog, settings).patch
    volumes = next(op["value"] for op in patch if op["path"] == "/spec/volumes")
    assert volumes[0]["hostPath"]["path"] == "/var/lib/larder/models/team_llama/beef"
    assert any(op["value"] == [MOUNT | {"mountPath": "/models/own"}] for op in patch if "volumeMounts" in op["path"])


def test_a_disabled_model_of_the_namespace_does_not_fall_back(
    catalog: MemoryCatalog, settings: AdmissionSettings
) -> None:
    catalog.base_models[1] = replace(catalog.base_models[1], disabled=True)
    with pytest.raises(ModelNotReady, match="BaseModel team/llama is disabled"):
        pod_changes(base_model_pod("p", "llama"), "team", catalog, settings)


def test_init_containers_get_the_model_and_sidecars_do_not(rewrite: Rewrite) -> None:
    pod = base_model_pod("p", "llama", "main", "istio-proxy")
    pod["spec"]["initContainers"] = [{"name": "warm-up"}]
    after, _ = rewrite(pod)
    assert after["spec"]["initContainers"][0]["volumeMounts"] == [MOUNT]
    assert after["spec"]["containers"][1] == pod["spec"]["containers"][1]


def test_existing_fields_of_the_pod_are_kept(rewrite: Rewrite) -> None:
    pod = base_model_pod("p", "llama")
    pod["metadata"]["labels"] = {"app": "x"}
    pod["spec"] |= {"nodeSelector": {"zone": "a"}, "volumes": [{"name": "tmp", "emptyDir": {}}]}
    pod["spec"]["containers"][0] |= {
        "env": [{"name": "A", "value": "1"}],
        "volumeMounts": [{"name": "tmp", "mountPath": "/opt/ml"}],
    }
    after, _ = rewrite(pod)
    container = after["spec"]["containers"][0]
    assert after["metadata"]["labels"]["app"] == "x"
    assert after["spec"]["nodeSelector"] == SELECTORS | {"zone": "a"}
    assert [v["name"] for v in after["spec"]["volumes"]] == ["tmp", "larder-model"]
    assert [e["name"] for e in container["env"]] == ["MODEL_PATH", "A"]
    assert container["volumeMounts"] == [{"name": "tmp", "mountPath": "/opt/ml"}, MOUNT]


def test_a_model_path_of_its_own_is_kept(rewrite: Rewrite) -> None:
    pod = base_model_pod("p", "llama")
    pod["spec"]["containers"][0]["env"] = [{"name": "MODEL_PATH", "value": "/elsewhere"}]
    after, _ = rewrite(pod)
    assert after["spec"]["containers"][0]["env"] == [{"name": "MODEL_PATH", "value": "/elsewhere"}]


@pytest.mark.parametrize("path", ["/opt/ml/model", "/opt/ml/model/", "/opt//ml/model", "/opt/ml/model/cache"])
def test_a_mount_at_or_below_the_model_path_is_refused(
    path: str, catalog: MemoryCatalog, settings: AdmissionSettings
) -> None:
    pod = base_model_pod("p", "llama")
    pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "tmp", "mountPath": path}]
    with pytest.raises(MountConflict, match=r"container 'main' mounts volume 'tmp' at .*; move that mount"):
        pod_changes(pod, "default", catalog, settings)


def test_a_volume_with_our_name_is_refused(catalog: MemoryCatalog, settings: AdmissionSettings) -> None:
    pod = base_model_pod("p", "llama")
    pod["spec"]["volumes"] = [{"name": "larder-model", "emptyDir": {}}]
    with pytest.raises(MountConflict, match="rename it"):
        pod_changes(pod, "default", catalog, settings)


def test_a_selector_that_contradicts_the_model_is_refused(catalog: MemoryCatalog, settings: AdmissionSettings) -> None:
    pod = base_model_pod("p", "llama")
    pod["spec"]["nodeSelector"] = {ready_label("llama"): "false"}
    with pytest.raises(MountConflict, match="remove that entry"):
        pod_changes(pod, "default", catalog, settings)


@pytest.mark.parametrize(
    ("name", "phrase"),
    [("none", "no BaseModel 'none' in namespace default"), ("", "write only the name"), ("a/b", "write only the name")],
)
def test_an_unknown_name_is_refused(
    name: str, phrase: str, catalog: MemoryCatalog, settings: AdmissionSettings
) -> None:
    with pytest.raises(ModelNotFound, match=phrase):
        pod_changes(base_model_pod("p", name), "default", catalog, settings)


@pytest.mark.parametrize(
    ("change", "phrase"),
    [
        ({"disabled": True}, "is disabled"),
        ({"deleting": True}, "is being deleted"),
        ({"serving_revision": ""}, "is not resolved yet"),
        ({"reason": "NameConflict", "message": "x is older"}, "NameConflict: x is older"),
        ({"uri": "", "reason": "InvalidURI", "message": "bad"}, "InvalidURI: bad"),
    ],
)
def test_an_unavailable_model_is_refused_with_a_remedy(
    change: dict[str, Any], phrase: str, catalog: MemoryCatalog, settings: AdmissionSettings
) -> None:
    catalog.base_models[0] = replace(catalog.base_models[0], **change)
    with pytest.raises(ModelNotReady, match=f"{phrase}.*kubectl get clusterbasemodel llama"):
        pod_changes(base_model_pod("p", "llama"), "default", catalog, settings)


def test_an_invalid_model_path_is_refused(catalog: MemoryCatalog, settings: AdmissionSettings) -> None:
    catalog.base_models[0] = replace(catalog.base_models[0], mount_path="/etc/model")
    with pytest.raises(InvalidPath, match="is a system directory of the container"):
        pod_changes(base_model_pod("p", "llama"), "default", catalog, settings)


def test_a_copy_of_a_rewritten_pod_gets_the_present_revision(catalog: MemoryCatalog, rewrite: Rewrite) -> None:
    old, _ = rewrite(base_model_pod("p", "llama"))
    catalog.base_models[0] = replace(catalog.base_models[0], serving_revision="new")
    after, _ = rewrite(old)
    fresh, _ = rewrite(base_model_pod("p", "llama"))
    assert after == fresh


def test_a_pod_that_names_its_node_is_warned(rewrite: Rewrite) -> None:
    pod = base_model_pod("p", "llama")
    pod["spec"]["nodeName"] = "n1"
    after, warnings = rewrite(pod)
    assert after["spec"]["nodeSelector"] == SELECTORS
    assert "nodeName bypasses the scheduler" in warnings[0]


def test_a_vendor_s_model_is_left_alone(catalog: MemoryCatalog, rewrite: Rewrite) -> None:
    catalog.base_models[0] = replace(catalog.base_models[0], uri="vendor://acme/llm/x")
    pod = base_model_pod("p", "llama")
    after, warnings = rewrite(pod)
    assert after["spec"] == pod["spec"]
    assert "vendor://acme/llm/x" in after["metadata"]["annotations"]["larder.dev/not-cached"]
    assert warnings


def _on_claim(kind: str, namespace: str, uri: str) -> CatalogModel:
    return CatalogModel(kind, namespace, "nfs", f"{namespace}_nfs" if namespace else "nfs", uri)


@pytest.mark.parametrize(
    "model",
    [
        _on_claim("BaseModel", "default", "pvc://claim/models/llama"),
        _on_claim("ClusterBaseModel", "", "pvc://default/claim/models/llama"),
    ],
)
def test_a_model_on_a_claim_is_mounted_without_a_selector(
    model: CatalogModel, catalog: MemoryCatalog, rewrite: Rewrite
) -> None:
    catalog.base_models.append(model)
    after, _ = rewrite(base_model_pod("p", "nfs"))
    spec = after["spec"]
    assert "nodeSelector" not in spec
    assert spec["volumes"] == [
        {"name": "larder-model", "persistentVolumeClaim": {"claimName": "claim", "readOnly": True}}
    ]
    assert spec["containers"][0]["volumeMounts"] == [MOUNT | {"subPath": "models/llama"}]
    assert spec["containers"][0]["env"] == [{"name": "MODEL_PATH", "value": "/opt/ml/model"}]
    assert read_models(after) == [(model.id, "")]
    assert after["metadata"]["labels"] == {uses_label(model.id): "true", USER_LABEL: "true"}


def test_a_claim_of_another_namespace_is_refused_by_name(catalog: MemoryCatalog, settings: AdmissionSettings) -> None:
    catalog.base_models.append(_on_claim("ClusterBaseModel", "", "pvc://storage/claim/m"))
    with pytest.raises(NamespaceNotAllowed, match="claim 'claim' in namespace 'storage'"):
        pod_changes(base_model_pod("p", "nfs"), "default", catalog, settings)
