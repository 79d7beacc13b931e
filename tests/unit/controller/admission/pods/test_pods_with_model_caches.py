"""Pods that use ModelCaches by name or by URI, through the claim of the namespace, and never twice."""

import copy
from collections.abc import Mapping
from typing import Any

import jsonpatch
import pytest

from controller.admission.catalog.memory import MemoryCatalog
from controller.admission.catalog.port import CatalogModel
from controller.admission.errors import ModelNotFound, ModelNotReady
from controller.admission.pods.pod_changes import pod_changes
from controller.admission.settings import AdmissionSettings
from rig.pods import kserve_pod, plain_pod

URI = "s3://models/llama"


def own(name: str = "llama", uri: str = URI, **fields: Any) -> CatalogModel:
    known: dict[str, Any] = {"serving_revision": "r1", "claim": name, "id": f"team_modelcache_{name}"}
    return CatalogModel("ModelCache", "team", name, uri=uri, **(known | fields))


def injected(pod: Mapping[str, Any], *caches: CatalogModel, **catalog: Any) -> dict[str, Any]:
    known = MemoryCatalog(own_caches=list(caches), **catalog)
    patch = pod_changes(pod, "team", known, AdmissionSettings()).patch
    after: dict[str, Any] = jsonpatch.apply_patch(copy.deepcopy(dict(pod)), list(patch))
    return after


def mounted(pod: Mapping[str, Any], volume: str) -> list[tuple[str, str, bool]]:
    mounts = (m for m in pod["spec"]["containers"][0]["volumeMounts"] if m["name"] == volume)
    return [(m["mountPath"], m.get("subPath", ""), m["readOnly"]) for m in mounts]


@pytest.mark.parametrize("name", ["llama", "modelcache/llama", "mc/llama"])
def test_a_named_cache_is_mounted_from_its_claim_and_selects_no_node(name: str) -> None:
    pod = injected(plain_pod("p", {"larder.dev/model": name}), own())
    (volume,) = pod["spec"]["volumes"]
    assert volume["persistentVolumeClaim"] == {"claimName": "llama", "readOnly": True}
    assert mounted(pod, volume["name"]) == [("/mnt/models", "model", True)]
    assert "nodeSelector" not in pod["spec"]
    assert {"name": "MODEL_PATH", "value": "/mnt/models"} in pod["spec"]["containers"][0]["env"]
    assert "larder.dev/claims" not in pod["metadata"]["annotations"], "the controller creates no claim for it"


def test_a_cache_of_another_namespace_is_not_found() -> None:
    with pytest.raises(ModelNotFound):
        pod_changes(
            plain_pod("p", {"larder.dev/model": "llama"}),
            "other",
            MemoryCatalog(own_caches=[own()]),
            AdmissionSettings(),
        )


def test_a_cache_that_is_not_ready_is_refused_with_its_reason() -> None:
    with pytest.raises(ModelNotReady, match="Downloading"):
        injected(plain_pod("p", {"larder.dev/model": "llama"}), own(reason="Downloading", message="35 %"))


def test_a_kserve_pod_gets_the_part_of_the_cache_that_it_names() -> None:
    pod = injected(kserve_pod("p", f"{URI}/8b"), own(), paths={"team_modelcache_llama": {"8b/config.json"}})
    assert mounted(pod, "kserve-pvc-source") == [("/mnt/models", "model/8b", True)]
    assert "initContainers" not in pod["spec"]
    assert "nodeSelector" not in pod["spec"]


def test_a_part_missing_from_the_cache_leaves_the_download_unchanged() -> None:
    pod = injected(kserve_pod("p", f"{URI}/70b"), own(), paths={"team_modelcache_llama": {"8b/config.json"}})
    assert pod["spec"]["initContainers"]


def test_the_namespaces_cache_comes_before_the_clusters() -> None:
    cluster = CatalogModel("ClusterModelCache", "", "a", id="a", uri=URI, serving_revision="r9", groups=("gpus",))
    pod = injected(kserve_pod("p", URI), own(), cluster_caches=[cluster])
    volume = next(v for v in pod["spec"]["volumes"] if v["name"] == "kserve-pvc-source")
    assert volume["persistentVolumeClaim"]["claimName"] == "llama"


@pytest.mark.parametrize("pod", [plain_pod("p", {"larder.dev/model": "llama"}), kserve_pod("p", URI)])
def test_a_second_pass_changes_nothing(pod: dict[str, Any]) -> None:
    first = injected(pod, own())
    assert injected(first, own()) == first


def test_a_claim_that_the_user_mounts_belongs_to_the_user() -> None:
    pod = kserve_pod("p", "pvc://llama/model")
    pod["spec"]["initContainers"] = []
    pod["spec"]["volumes"] = [{"name": "kserve-pvc-source", "persistentVolumeClaim": {"claimName": "llama"}}]
    pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "kserve-pvc-source", "mountPath": "/mnt/models"}]
    assert injected(pod, own())["spec"]["volumes"] == pod["spec"]["volumes"]
