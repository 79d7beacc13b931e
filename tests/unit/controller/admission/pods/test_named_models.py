"""Pods that name models of any kind, and the layout of the hub's cache."""

import copy
from dataclasses import replace
from typing import Any

import jsonpatch
import pytest

from controller.admission.catalog.memory import MemoryCatalog
from controller.admission.catalog.port import CatalogModel
from controller.admission.errors import InvalidRequest, ModelNotFound, ModelNotReady, MountConflict
from controller.admission.pods.pod_annotations import CONTAINER, LAYOUT, MOUNT_PATH, NAMED_MODELS, VARIABLE
from controller.admission.pods.pod_changes import pod_changes
from controller.admission.settings import AdmissionSettings
from controller.placement.volume_names import CLAIMS_ANNOTATION
from rig.pods import BASE_MODEL, base_model_pod, plain_pod
from shared.json_object import Json
from shared.names import ready_label, snapshot_label, uses_label

SETTINGS = AdmissionSettings()
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def models() -> MemoryCatalog:
    return MemoryCatalog(
        base_models=[
            CatalogModel("ClusterBaseModel", "", "llama-3", "llama-3", "hf://meta/llama-3@main", COMMIT, COMMIT),
            CatalogModel("BaseModel", "team", "own", "team_own", "s3://bucket/own", "r1"),
            CatalogModel("BaseModel", "team", "twice", "team_twice", "s3://bucket/twice", "r1"),
            CatalogModel("ClusterBaseModel", "", "twice", "twice", "s3://other/twice", "r1"),
            CatalogModel("BaseModel", "team", "data", "team_data", "pvc://data/models/x"),
        ],
        cluster_caches=[
            CatalogModel("ClusterModelCache", "", "mistral", "mistral", "s3://bucket/mistral", "r7", "r7"),
            CatalogModel("ClusterModelCache", "", "llama-3", "llama-3", "hf://meta/llama-3@main", COMMIT, COMMIT),
            CatalogModel("ClusterModelCache", "", "phi", "phi", "hf://org/phi@v1.0", COMMIT, COMMIT),
        ],
    )


def admit(catalog: MemoryCatalog, names: str, *containers: str, **annotations: str) -> Json:
    """Send a pod of namespace `team` through admission twice; the second pass must change nothing."""
    keys = {"path": MOUNT_PATH, "container": CONTAINER, "env": VARIABLE, "layout": LAYOUT}
    asked = {NAMED_MODELS: names} | {keys[key]: value for key, value in annotations.items()}
    return twice(catalog, plain_pod("p", asked, *containers))


def twice(catalog: MemoryCatalog, pod: Json) -> Json:
    after: Json = jsonpatch.apply_patch(copy.deepcopy(pod), list(pod_changes(pod, "team", catalog, SETTINGS).patch))
    assert pod_changes(after, "team", catalog, SETTINGS).patch == ()
    return after


def mounts(pod: Json, container: int = 0) -> dict[str, str]:
    """Return the claims that a container mounts by path, or the kind of volume."""
    sources = {v["name"]: _source(v) for v in pod["spec"].get("volumes", [])}
    found = pod["spec"]["containers"][container].get("volumeMounts", [])
    assert all(mount["readOnly"] is True for mount in found)
    return {mount["mountPath"]: sources[mount["name"]] for mount in found}


def _source(volume: dict[str, Any]) -> str:
    claim = volume.get("persistentVolumeClaim")
    return str(claim["claimName"]) if claim else next(key for key in volume if key != "name")


def variables(pod: Json, container: int = 0) -> dict[str, str]:
    return {v["name"]: v["value"] for v in pod["spec"]["containers"][container].get("env", [])}


def test_models_of_every_kind_are_requested_by_the_same_annotation(models: MemoryCatalog) -> None:
    assert mounts(admit(models, "llama-3")) == {"/opt/ml/model": "llama-3"}
    assert mounts(admit(models, "mistral")) == {"/mnt/models": "mistral"}
    assert list(mounts(admit(models, "own"))) == ["/opt/ml/model"]
    assert mounts(admit(models, "data")) == {"/opt/ml/model": "data"}
    assert mounts(admit(models, "cmc/llama-3")) == {"/mnt/models": "llama-3"}
    assert list(mounts(admit(models, "BaseModel/twice"))) == ["/opt/ml/model"]


def test_a_pod_with_a_named_model_gets_selectors_labels_claims_and_variables(models: MemoryCatalog) -> None:
    pod = admit(models, "mistral")
    assert pod["spec"]["nodeSelector"] == {ready_label("mistral"): "true", snapshot_label("mistral", "r7"): "true"}
    assert pod["metadata"]["labels"][uses_label("mistral")] == "true"
    assert pod["metadata"]["annotations"][CLAIMS_ANNOTATION] == "mistral=mistral@r7"
    assert variables(pod) == {"MODEL_PATH": "/mnt/models"}


def test_several_models_have_directories_and_variables_of_their_own(models: MemoryCatalog) -> None:
    pod = admit(models, "llama-3, mistral")
    assert mounts(pod) == {"/models/llama-3": "llama-3", "/models/mistral": "mistral"}
    assert variables(pod) == {"MODEL_PATH_LLAMA_3": "/models/llama-3", "MODEL_PATH_MISTRAL": "/models/mistral"}


def test_annotations_choose_path_variable_and_container(models: MemoryCatalog) -> None:
    pod = admit(models, "mistral", "server", "proxy", path="/data/m", env="WEIGHTS", container="server")
    assert (mounts(pod), variables(pod)) == ({"/data/m": "mistral"}, {"WEIGHTS": "/data/m"})
    assert "volumeMounts" not in pod["spec"]["containers"][1]
    both = admit(models, "llama-3,mistral", path="/data", env="M")
    assert list(mounts(both)) == ["/data/llama-3", "/data/mistral"]
    assert list(variables(both)) == ["M_MISTRAL", "M_LLAMA_3"]


def test_models_of_another_product_do_not_hide_those_of_larder(models: MemoryCatalog) -> None:
    """For a kind of another product, the catalog returns a placeholder whether or not there is such a model."""
    placeholders = [CatalogModel("ClusterBaseModel", "", name, "", "", managed=False) for name in ("mistral", "nobody")]
    models.base_models += placeholders
    assert mounts(admit(models, "mistral")) == {"/mnt/models": "mistral"}
    with pytest.raises(ModelNotFound, match=r"no model 'nobody'.*ClusterBaseModels belong to another") as refusal:
        admit(models, "nobody")
    assert 'larder.dev/managed: "true"' in str(refusal.value)


@pytest.mark.parametrize(
    ("names", "error", "message"),
    [
        ("", ModelNotFound, "names no model"),
        ("mistal", ModelNotFound, "has no model 'mistal'.*similar names are mistral"),
        ("bm/mistral", ModelNotFound, "has no model 'bm/mistral'"),
        ("pod/mistral", ModelNotFound, "'pod' is not a kind of model; write BaseModel, ClusterBaseModel, Cluster"),
        ("twice", ModelNotFound, "several models .* write one of basemodel/twice, clusterbasemodel/twice"),
        (",".join(f"m{i}" for i in range(17)), InvalidRequest, "17 models; a pod may have at most 16"),
    ],
)
def test_an_unknown_or_ambiguous_model_name_is_refused(
    models: MemoryCatalog, names: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        admit(models, names)


@pytest.mark.parametrize(
    ("annotation", "value", "message"),
    [
        ("env", "A B", "not the name of an environment variable"),
        ("layout", "flat", "write directory or hub"),
    ],
)
def test_an_invalid_request_is_refused(models: MemoryCatalog, annotation: str, value: str, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        admit(models, "mistral", **{annotation: value})


def test_an_unknown_container_is_refused_with_the_existing_ones(models: MemoryCatalog) -> None:
    with pytest.raises(MountConflict, match=r"names 'nginx', but .* it has main"):
        admit(models, "mistral", container="nginx")


def test_a_model_of_another_namespace_is_neither_given_nor_mentioned(models: MemoryCatalog) -> None:
    models.base_models.append(CatalogModel("BaseModel", "other", "secret", "other_secret", "s3://b/x", "r1"))
    with pytest.raises(ModelNotFound) as refused:
        admit(models, "secre")
    assert "secret" not in str(refused.value)


def test_an_unresolved_model_is_refused(models: MemoryCatalog) -> None:
    models.cluster_caches.append(CatalogModel("ClusterModelCache", "", "new", "new", "hf://o/new@main"))
    for annotations in ({}, {"layout": "hub"}):
        with pytest.raises(ModelNotReady, match="ClusterModelCache new is not resolved yet"):
            admit(models, "new", **annotations)


def test_the_hub_layout_is_assembled_from_mounts(models: MemoryCatalog) -> None:
    pod = admit(models, "cmc/llama-3,phi", layout="hub")
    assert mounts(pod) == {
        f"/models/hub/models--meta--llama-3/snapshots/{COMMIT}": "llama-3",
        "/models/hub/models--meta--llama-3/refs": "downwardAPI",
        f"/models/hub/models--org--phi/snapshots/{COMMIT}": "phi",
        "/models/hub/models--org--phi/refs": "downwardAPI",
    }
    assert variables(pod) == {"HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": "/models/hub"}
    refs = next(v for v in pod["spec"]["volumes"] if len(v.get("downwardAPI", {}).get("items", [])) == 2)
    items = {item["path"]: item["fieldRef"]["fieldPath"] for item in refs["downwardAPI"]["items"]}
    assert list(items) == ["main", "v1.0"]
    key = items["main"].removeprefix("metadata.annotations['").removesuffix("']")
    assert pod["metadata"]["annotations"][key] == COMMIT


def test_the_hub_s_layout_needs_a_model_of_the_hub(models: MemoryCatalog) -> None:
    with pytest.raises(
        InvalidRequest, match=r"ClusterModelCache mistral is at s3://bucket/mistral; .* requires .* hf://"
    ):
        admit(models, "mistral", layout="hub")


def test_a_named_model_may_be_combined_with_a_base_model(models: MemoryCatalog) -> None:
    pod = twice(models, plain_pod("p", {NAMED_MODELS: "mistral", BASE_MODEL: "own"}))
    assert list(mounts(pod)) == ["/opt/ml/model", "/mnt/models"]
    assert variables(pod)["MODEL_PATH"] in ("/opt/ml/model", "/mnt/models")


def test_a_copied_pod_that_names_another_model_loses_the_first(models: MemoryCatalog) -> None:
    pod = admit(models, "llama-3", layout="hub")
    pod["metadata"]["annotations"] |= {NAMED_MODELS: "mistral"}
    del pod["metadata"]["annotations"][LAYOUT]
    after = twice(models, pod)
    assert mounts(after) == {"/mnt/models": "mistral"}
    assert len(after["spec"]["volumes"]) == 1
    assert ready_label("llama-3") not in after["spec"]["nodeSelector"]
    assert variables(after) == {"MODEL_PATH": "/mnt/models"}


def test_the_variable_of_a_copy_that_names_another_model_follows_it(models: MemoryCatalog) -> None:
    pod = admit(models, "llama-3")
    pod["spec"]["containers"][0]["env"] += [{"name": "OWN", "value": "/opt/ml/model"}]
    pod["metadata"]["annotations"] |= {NAMED_MODELS: "mistral"}
    assert variables(twice(models, pod)) == {"MODEL_PATH": "/mnt/models", "OWN": "/opt/ml/model"}


@pytest.mark.parametrize("layout", ["directory", "hub"])
@pytest.mark.parametrize("names", ["llama-3", "llama-3,phi"])
def test_a_copied_pod_that_no_longer_requests_a_model_loses_it(models: MemoryCatalog, names: str, layout: str) -> None:
    pod = admit(models, names, layout=layout, env="WEIGHTS")
    pod["spec"]["volumes"] += [{"name": "scratch", "emptyDir": {}}]
    pod["spec"]["containers"][0]["env"] += [{"name": "WEIGHTS_FORMAT", "value": "safetensors"}]
    del pod["metadata"]["annotations"][NAMED_MODELS]
    after = twice(models, pod)
    assert after["spec"]["volumes"] == [{"name": "scratch", "emptyDir": {}}]
    assert mounts(after) == {}
    assert variables(after) == {"WEIGHTS_FORMAT": "safetensors"}
    assert "nodeSelector" not in after["spec"]
    assert set(after["metadata"]["annotations"]) <= {LAYOUT, VARIABLE}


def test_a_copy_may_request_the_same_model_by_the_other_annotation(models: MemoryCatalog) -> None:
    named, based = admit(models, "llama-3"), twice(models, base_model_pod("p", "llama-3"))
    named["metadata"]["annotations"] = {k: v for k, v in named["metadata"]["annotations"].items() if k != NAMED_MODELS}
    named["metadata"]["annotations"] |= {BASE_MODEL: "llama-3"}
    assert twice(models, named)["spec"] == based["spec"]
    del based["metadata"]["annotations"][BASE_MODEL]
    based["metadata"]["annotations"] |= {NAMED_MODELS: "llama-3"}
    assert twice(models, based)["spec"] == admit(models, "llama-3")["spec"]


def test_a_volume_of_the_author_s_own_stays_whatever_its_name(models: MemoryCatalog) -> None:
    pod = admit(models, "llama-3")
    (volume,) = pod["spec"]["volumes"]
    pod["metadata"]["annotations"] = {}
    volume["persistentVolumeClaim"]["claimName"] = "mine"
    assert twice(models, pod)["spec"]["volumes"] == [volume]


def test_a_copy_that_leaves_the_hub_s_layout_keeps_nothing_of_it(models: MemoryCatalog) -> None:
    pod = admit(models, "llama-3,phi", layout="hub")
    pod["spec"]["containers"][0]["env"] += [{"name": "HF_TOKEN", "value": "own"}]
    del pod["metadata"]["annotations"][LAYOUT]
    after = twice(models, pod)
    assert mounts(after) == {"/models/llama-3": "llama-3", "/models/phi": "phi"}
    assert set(variables(after)) == {"MODEL_PATH_LLAMA_3", "MODEL_PATH_PHI", "HF_TOKEN"}
    assert not any("downwardAPI" in volume for volume in after["spec"]["volumes"])
    assert not any(key.startswith("hub.larder.dev/") for key in after["metadata"]["annotations"])


def test_a_copy_moves_its_cache_and_follows_a_new_commit(models: MemoryCatalog) -> None:
    pod = admit(models, "llama-3", layout="hub")
    pod["metadata"]["annotations"][MOUNT_PATH] = "/cache"
    models.base_models[0] = replace(models.base_models[0], serving_revision="f" * 40)
    after = twice(models, pod)
    repository = "/cache/models--meta--llama-3"
    assert list(mounts(after)) == [f"{repository}/snapshots/{'f' * 40}", f"{repository}/refs"]
    assert variables(after) == {"HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": "/cache"}


def test_variables_of_the_pod_s_own_stay_when_it_leaves_the_hub_s_layout(models: MemoryCatalog) -> None:
    own = {"HF_HUB_CACHE": "/own", "HF_HUB_OFFLINE": "1"}
    pod = plain_pod("p", {NAMED_MODELS: "llama-3", LAYOUT: "hub"})
    pod["spec"]["containers"][0]["env"] = [{"name": name, "value": value} for name, value in own.items()]
    pod = twice(models, pod)
    del pod["metadata"]["annotations"][LAYOUT]
    assert variables(twice(models, pod)) == {"MODEL_PATH": "/opt/ml/model", **own}
