"""A catalog of a few models, and pods before and after."""

import copy

import jsonpatch
import pytest

from controller.admission.catalog.memory import MemoryCatalog
from controller.admission.catalog.port import CatalogModel, CatalogNode
from controller.admission.pods.pod_changes import pod_changes
from controller.admission.settings import AdmissionSettings
from rig.pods import Rewrite
from shared.json_object import Json


@pytest.fixture
def settings() -> AdmissionSettings:
    return AdmissionSettings(store_root="/var/lib/larder", mount="hostPath")


@pytest.fixture
def catalog() -> MemoryCatalog:
    return MemoryCatalog(
        base_models=[
            CatalogModel("ClusterBaseModel", "", "llama", "llama", "hf://meta/llama@main", "c0ffee", "c0ffee"),
            CatalogModel(
                "BaseModel", "team", "llama", "team_llama", "s3://bucket/llama", "beef", "beef", "/models/own"
            ),
        ],
        cluster_caches=[
            CatalogModel("ClusterModelCache", "", "short", "short", "s3://bucket/m", "r1", "r1", groups=("g",)),
            CatalogModel("ClusterModelCache", "", "long", "long", "s3://bucket/m/sub", "r2", "r0", groups=("g",)),
            CatalogModel("ClusterModelCache", "", "hub", "hub", "hf://o/m@v1", "r3", "r3", groups=("g",)),
        ],
        members={"g": [CatalogNode("n", {})]},
        paths={"short": {"x/y.bin", "z/deep/model.onnx"}, "long": {"deep/config.json", "one.bin"}},
    )


@pytest.fixture
def rewrite(catalog: MemoryCatalog, settings: AdmissionSettings) -> Rewrite:
    """Send a pod of namespace `default` through admission twice; the second pass must change nothing."""

    def run(pod: Json) -> tuple[Json, tuple[str, ...]]:
        before = copy.deepcopy(pod)
        first = pod_changes(pod, "default", catalog, settings)
        assert pod == before
        after: Json = jsonpatch.apply_patch(pod, list(first.patch))
        assert pod_changes(after, "default", catalog, settings).patch == ()
        return after, first.warnings

    return run
