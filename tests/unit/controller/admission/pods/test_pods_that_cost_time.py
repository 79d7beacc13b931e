"""Hostile pods, which no API server has validated yet, take a bounded time."""

import json
from typing import Any

import pytest

from controller.admission.catalog.memory import MemoryCatalog
from controller.admission.errors import InvalidRequest, MountConflict
from controller.admission.injectable_model import InjectableModel
from controller.admission.model_injector.annotations import INJECT
from controller.admission.model_injector.inject_model_claims import inject_model_claims
from controller.admission.pods.containers import drop_variables, take_mounts
from controller.admission.pods.model_mounts import chosen_containers
from controller.admission.pods.pod_annotations import MODELS, NAMED_MODELS
from controller.admission.pods.pod_changes import pod_changes
from controller.admission.pods.scheduling import ensure_affinity
from controller.admission.settings import AdmissionSettings

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def term(*keys: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": "Exists"} for key in keys]}


def required(*terms: dict[str, Any]) -> dict[str, Any]:
    return {REQUIRED: {"nodeSelectorTerms": list(terms)}}


def test_an_oversized_forged_list_of_models_is_dropped_without_reading_it() -> None:
    annotations = {MODELS: ",".join(f"m{number}" for number in range(30_000))}  # takes a minute if each is searched for
    spec = {"containers": [{"name": "c"}], "nodeSelector": {f"k{number}": "v" for number in range(20_000)}}
    pod = {"metadata": {"annotations": annotations}, "spec": spec}
    (change,) = pod_changes(pod, "team", MemoryCatalog(), AdmissionSettings()).patch
    assert (change["op"], change["path"]) == ("remove", "/metadata/annotations")


def test_more_mounts_than_any_pod_needs_are_refused() -> None:
    mounts = [{"name": "v", "mountPath": f"/d/{number}"} for number in range(1501)]
    spec = {"containers": [{"volumeMounts": mounts}]}
    with pytest.raises(InvalidRequest, match="1501 volumeMounts"):
        pod_changes(
            {"metadata": {"annotations": {NAMED_MODELS: "m"}}, "spec": spec},
            "team",
            MemoryCatalog(),
            AdmissionSettings(),
        )
    named = {"metadata": {"annotations": {INJECT: "m"}}, "spec": spec}
    with pytest.raises(InvalidRequest, match="1501 volumeMounts"):
        inject_model_claims(named, "team", {"m": InjectableModel("m", "Ready", "model-m")})


def test_affinities_of_pod_and_model_that_combine_to_too_much_are_refused() -> None:
    own = required(term(*(f"k{number}" for number in range(20_000))))  # 790 KiB, which 100 terms make 77 MiB
    spec: dict[str, Any] = {"affinity": {"nodeAffinity": own}}
    with pytest.raises(MountConflict, match="combine to more than 256 KiB"):
        ensure_affinity(spec, required(*(term(f"z{number}") for number in range(100))))
    small: dict[str, Any] = {"affinity": {"nodeAffinity": required(term(*(f"k{number}" for number in range(50))))}}
    ensure_affinity(small, required(*(term(f"z{number}") for number in range(50))))
    assert len(json.dumps(small)) < 256 * 1024


def test_long_terms_that_imply_each_other_are_compared_quickly() -> None:
    keys = [f"k{number}" for number in range(3000)]
    spec: dict[str, Any] = {"affinity": {"nodeAffinity": required(term(*keys))}}
    ensure_affinity(spec, required(term(*reversed(keys))))
    assert spec["affinity"]["nodeAffinity"] == required(term(*keys))


def test_variables_of_many_mounts_are_found_in_one_pass() -> None:
    container = {
        "env": [{"name": f"MODEL_PATH_{number}", "value": f"/d/{number}"} for number in range(30_000)],
        "volumeMounts": [{"name": "larder-0123456789", "mountPath": f"/d/{number}"} for number in range(29_999)],
    }
    drop_variables(container, "MODEL_PATH", take_mounts(container, {"larder-0123456789"}))
    assert container == {"env": [{"name": "MODEL_PATH_29999", "value": "/d/29999"}], "volumeMounts": []}


def test_many_chosen_containers_are_found_in_linear_time() -> None:
    names = [f"c{number}" for number in range(30_000)]
    pod = {"spec": {"containers": [{"name": name} for name in names]}}
    assert chosen_containers(pod, "larder.dev/container", names) == frozenset(names)
