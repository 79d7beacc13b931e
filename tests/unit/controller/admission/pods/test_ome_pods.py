"""Pods that mount something at the model's path already: OME's own are left alone, others are refused."""

from dataclasses import replace
from typing import Any

import pytest

from controller.admission.catalog.memory import MemoryCatalog
from controller.admission.catalog.port import CatalogModel
from controller.admission.errors import MountConflict
from controller.admission.pods.pod_annotations import NOT_CACHED, read_models
from controller.admission.pods.pod_changes import pod_changes
from controller.admission.settings import AdmissionSettings
from rig.pods import Rewrite, base_model_pod
from shared.json_object import Json

PATH = "/raid/models/llama"
LABELS = {"base-model-name": "llama", "base-model-size": "7B", "component": "engine"}


@pytest.fixture
def catalog(catalog: MemoryCatalog) -> MemoryCatalog:
    """The model `llama` at a path of its own, as in OME's manifests."""
    catalog.base_models = [replace(catalog.base_models[0], mount_path=PATH)]
    return catalog


def ome_pod(volume: str = "llama", labels: dict[str, str] | None = None, **source: Any) -> Json:
    """Return a pod as OME creates it: with a volume named after the model, at the model's path."""
    pod = base_model_pod("p", "llama", "ome-container")
    pod["metadata"]["labels"] = LABELS if labels is None else labels
    pod["spec"]["volumes"] = [{"name": volume, **(source or {"hostPath": {"path": PATH}})}]
    pod["spec"]["containers"][0] |= {
        "env": [{"name": "MODEL_PATH", "value": PATH}],
        "volumeMounts": [{"name": volume, "mountPath": PATH, "readOnly": True}],
    }
    return pod


@pytest.mark.parametrize(
    "pod",
    [
        ome_pod(),
        ome_pod(labels={}),
        ome_pod("model-pvc", persistentVolumeClaim={"claimName": "models"}),
    ],
)
def test_a_pod_that_ome_made_for_the_model_is_left_alone(pod: Json, rewrite: Rewrite) -> None:
    after, warnings = rewrite(pod)
    why = after["metadata"]["annotations"].pop(NOT_CACHED)
    assert after == pod
    assert (
        f"OME created this pod for ClusterBaseModel llama and mounts volume '{pod['spec']['volumes'][0]['name']}'"
        in why
    )
    assert warnings == (f"model not cached: {why}",)


@pytest.mark.parametrize(
    "pod",
    [
        ome_pod("data", labels={}),
        ome_pod(labels={}, emptyDir={}),
        ome_pod("data", labels=LABELS | {"base-model-name": "another"}),
    ],
)
def test_another_pod_with_a_mount_at_the_model_s_path_is_refused(
    pod: Json, catalog: MemoryCatalog, settings: AdmissionSettings
) -> None:
    name = pod["spec"]["volumes"][0]["name"]
    with pytest.raises(MountConflict, match=rf"mounts volume '{name}' at {PATH}, where the model is .*; move that"):
        pod_changes(pod, "default", catalog, settings)


def test_a_pod_of_ome_with_a_mount_elsewhere_gets_the_model(rewrite: Rewrite) -> None:
    pod = ome_pod()
    pod["spec"]["containers"][0]["volumeMounts"][0]["mountPath"] = "/elsewhere"
    assert read_models(rewrite(pod)[0]) == [("llama", "c0ffee")]


def test_a_recreated_pod_follows_its_model_from_a_claim_to_the_nodes_and_back(
    catalog: MemoryCatalog, rewrite: Rewrite
) -> None:
    on_nodes = catalog.base_models[0]
    on_claim = CatalogModel("BaseModel", "default", "llama", "default_llama", "pvc://claim/sub", mount_path=PATH)
    first, _ = rewrite(base_model_pod("p", "llama"))
    catalog.base_models = [on_claim]
    second, _ = rewrite(first)
    assert second["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] == "claim"
    catalog.base_models = [on_nodes]
    assert rewrite(second)[0] == first


def test_a_recreated_pod_of_a_vendor_model_loses_the_volume(catalog: MemoryCatalog, rewrite: Rewrite) -> None:
    first, _ = rewrite(base_model_pod("p", "llama"))
    catalog.base_models = [replace(catalog.base_models[0], uri="vendor://x/y/z")]
    after, _ = rewrite(first)
    assert after["spec"]["volumes"] == after["spec"]["containers"][0]["volumeMounts"] == []
    catalog.base_models = [replace(catalog.base_models[0], managed=False)]
    assert rewrite(first)[0]["spec"]["volumes"] == []
