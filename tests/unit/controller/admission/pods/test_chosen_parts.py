"""A pod that says which kind of model it means, and which of its containers gets it."""

import pytest

from controller.admission.catalog.memory import MemoryCatalog
from controller.admission.errors import InUse, ModelNotFound, MountConflict
from controller.admission.pods.pod_changes import pod_changes
from controller.admission.rules.check_deletion import check_delete_model
from controller.admission.settings import AdmissionSettings
from rig.pods import Rewrite, base_model_pod
from shared.json_object import Json

KIND, CONTAINER = "larder.dev/model-kind", "larder.dev/model-container"


def asking(*containers: str, **annotations: str) -> Json:
    pod = base_model_pod("p", "llama", *containers)
    pod["metadata"]["annotations"] |= {{"kind": KIND, "container": CONTAINER}[k]: v for k, v in annotations.items()}
    return pod


def test_the_kind_annotation_selects_among_models_of_the_same_name(
    catalog: MemoryCatalog, settings: AdmissionSettings
) -> None:
    def recorded(pod: Json) -> str:
        patch = pod_changes(pod, "team", catalog, settings).patch
        return next(str(p["value"]) for p in patch if p["path"].endswith("larder.dev~1models"))

    assert recorded(asking()) == "team_llama@beef"
    assert recorded(asking(kind="BaseModel")) == "team_llama@beef"
    assert recorded(asking(kind="ClusterBaseModel")) == "llama@c0ffee"


def test_a_model_that_the_required_kind_does_not_have_is_refused(
    catalog: MemoryCatalog, settings: AdmissionSettings
) -> None:
    with pytest.raises(
        ModelNotFound, match=r"no BaseModel 'llama' is visible from namespace default, .* requires that kind"
    ):
        pod_changes(asking(kind="BaseModel"), "default", catalog, settings)


def test_only_the_named_container_gets_the_model(rewrite: Rewrite) -> None:
    after, _ = rewrite(asking("proxy", "main", container="main"))
    proxy, main = after["spec"]["containers"]
    assert "volumeMounts" not in proxy
    assert "env" not in proxy
    assert [m["name"] for m in main["volumeMounts"]] == ["larder-model"]


def test_a_name_that_no_container_has_is_refused(catalog: MemoryCatalog, settings: AdmissionSettings) -> None:
    with pytest.raises(MountConflict, match="no container of that name"):
        pod_changes(asking(container="none"), "default", catalog, settings)


def test_pods_and_services_that_use_a_model_are_named() -> None:
    with pytest.raises(InUse, match=r"^BaseModel t/m is used by 2 InferenceServices: t/a, t/b; delete those first"):
        check_delete_model("BaseModel t/m", (), ("t/b", "t/a"))
    with pytest.raises(InUse, match=r"1 InferenceService: t/a and 1 pod: t/p; delete those first"):
        check_delete_model("BaseModel t/m", ("t/p",), ("t/a",))
    check_delete_model("BaseModel t/m", (), ())
