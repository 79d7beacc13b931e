"""Over generated pods: Models are injected once, whatever else the pod has and whichever webhook is first."""

import copy

import jsonpatch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller.admission.catalog.memory import MemoryCatalog
from controller.admission.catalog.port import CatalogModel
from controller.admission.errors import AdmissionRefused
from controller.admission.injectable_model import InjectableModel
from controller.admission.model_injector.inject_model_claims import inject_model_claims
from controller.admission.pods.pod_changes import pod_changes
from controller.admission.settings import AdmissionSettings
from shared.json_object import Json

NAMES = ["a", "a-b", "a.b", "llama"]
MODELS = {name: InjectableModel(name, "Ready", f"model-{name}", source_type="url") for name in NAMES}
CATALOG = MemoryCatalog(
    base_models=[
        CatalogModel("ClusterBaseModel", "", "llama", "llama", "hf://o/llama@main", "r", "r"),
        CatalogModel("ClusterBaseModel", "", "other", "other", "hf://o/other@main", "r", "r"),
    ]
)
FLAG = st.sampled_from(["true", "false"])
ANNOTATIONS = st.fixed_dictionaries(
    {"models.example.com/inject": st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map(",".join)},
    optional={
        "models.example.com/mount-path": st.sampled_from(["/x", "/models", "/models/llama", "/etc"]),
        "models.example.com/read-only": FLAG,
        "models.example.com/inject-env": FLAG,
        "models.example.com/container": st.sampled_from(["main", "init", "main,second", "none"]),
        "larder.dev/model": st.sampled_from(["llama", "llama,other"]),
        "larder.dev/mount-path": st.sampled_from(["/models", "/x", "/models/llama"]),
        "larder.dev/env": st.sampled_from(["MODEL", "MODEL_A_NAME"]),
        "larder.dev/layout": st.just("hub"),
    },
)
MOUNT = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["tmp", "model-a", "model-llama"]),
        "mountPath": st.sampled_from(["/x", "/models", "/models/a", "/models/a/b", "/y"]),
    },
    optional={"readOnly": st.booleans()},
)


def containers(*names: str) -> st.SearchStrategy[list[Json]]:
    mounted = st.lists(MOUNT, max_size=2, unique_by=lambda mount: str(mount["mountPath"]))
    each = (
        st.fixed_dictionaries(
            {"name": st.just(name)},
            optional={"volumeMounts": mounted, "env": st.just([{"name": "MODEL_A_NAME", "value": "mine"}])},
        )
        for name in names
    )
    return st.tuples(*each).map(list)


VOLUME = st.sampled_from(
    [
        {"name": "tmp", "emptyDir": {}},
        {"name": "model-a", "persistentVolumeClaim": {"claimName": "model-a", "readOnly": True}},
        {"name": "model-llama", "persistentVolumeClaim": {"claimName": "model-llama"}},
    ]
)
PODS = st.builds(
    lambda annotations, spec: {"metadata": {"annotations": annotations}, "spec": spec},
    ANNOTATIONS,
    st.fixed_dictionaries(
        {"containers": containers("main", "second")},
        optional={
            "initContainers": containers("init"),
            "volumes": st.lists(VOLUME, max_size=2, unique_by=lambda volume: str(volume["name"])),
        },
    ),
)


def by_models(pod: Json) -> Json:
    changed: Json = jsonpatch.apply_patch(pod, list(inject_model_claims(pod, "ns", MODELS).patch))
    return changed


def by_pods(pod: Json) -> Json:
    changed: Json = jsonpatch.apply_patch(pod, list(pod_changes(pod, "ns", CATALOG, AdmissionSettings()).patch))
    return changed


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(PODS)
def test_a_second_pass_changes_nothing(pod: Json) -> None:
    before = copy.deepcopy(pod)
    try:
        once = by_models(pod)
    except AdmissionRefused:
        return
    assert pod == before
    assert by_models(once) == once


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(PODS)
def test_both_webhooks_give_the_same_pod_in_any_order(pod: Json) -> None:
    """The API server calls the webhook of `larder.dev` annotations again after a change of the other's."""
    outcomes = list[Json | None]()
    for passes in ((by_models, by_pods, by_models), (by_pods, by_models, by_pods)):
        try:
            draft = pod
            for one in passes:
                draft = one(draft)
        except AdmissionRefused:
            outcomes.append(None)
            continue
        outcomes.append(_comparable(draft))
        assert by_pods(by_models(draft)) == draft
    assert outcomes[0] == outcomes[1]


def _comparable(pod: Json) -> Json:
    """Sort the lists whose order does not matter."""
    found = copy.deepcopy(pod)
    spec = found["spec"]
    spec["volumes"] = sorted(spec.get("volumes") or [], key=lambda volume: volume["name"])
    for container in (*spec["containers"], *spec.get("initContainers", [])):
        for key in ("env", "volumeMounts"):
            container[key] = sorted(container.get(key) or [], key=str)
    return found
