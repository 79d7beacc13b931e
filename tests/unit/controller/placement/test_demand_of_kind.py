from typing import Any

import msgspec

from controller.placement.demand_of_kind import LONG_AFFINITY, base_model_demand
from shared.api.base_model import BaseModel, BaseModelSpec, BaseModelStatus, Storage
from shared.kube.objects import Meta


def base(name: str, uri: str, **meta: Any) -> BaseModel:
    fields: dict[str, Any] = {"uid": f"uid-{name}", "creation_timestamp": "2026-01-01T00:00:00Z"} | meta
    return BaseModel(
        metadata=Meta(name=name, **fields),
        spec=BaseModelSpec(storage=Storage(storage_uri=uri)),
        status=BaseModelStatus(
            source="hf://o/m@main", resolved_revision="c0ffee", manifest_digest="d" * 64, serving_revision="c0ffee"
        ),
    )


def test_a_resolution_counts_only_for_the_uri_that_was_resolved() -> None:
    assert base_model_demand("ClusterBaseModel", base("m", "hf://o/m")).resolution is not None
    moved = base_model_demand("ClusterBaseModel", base("m", "hf://o/m@v2"))
    assert moved.resolution is None
    assert moved.serving == "c0ffee"


def test_the_id_of_a_namespaced_model_contains_its_namespace() -> None:
    assert base_model_demand("BaseModel", base("m", "hf://o/m", namespace="team")).id == "team_m"
    assert base_model_demand("ClusterBaseModel", base("m", "hf://o/m")).id == "m"


def test_claims_and_invalid_uris_are_not_kept_on_nodes() -> None:
    on_claim = base_model_demand("ClusterBaseModel", base("m", "pvc://ns/claim/dir"))
    assert on_claim.on_claim
    assert not on_claim.placeable
    broken = base_model_demand("ClusterBaseModel", base("m", "ftp://x/y"))
    assert "ftp://" in broken.invalid
    assert not broken.placeable


def test_a_long_affinity_is_refused_from_namespaces_but_not_from_administrators() -> None:
    term = {"matchExpressions": [{"key": "k", "operator": "Exists"}]}
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term] * 100}}
    storage = Storage(storage_uri="hf://o/m", node_affinity=affinity)
    theirs = msgspec.structs.replace(base("m", "hf://o/m", namespace="team"), spec=BaseModelSpec(storage=storage))
    demand = base_model_demand("BaseModel", theirs)
    assert (demand.node_affinity, demand.invalid, demand.placeable) == ({}, LONG_AFFINITY, False)
    ours = msgspec.structs.replace(base("m", "hf://o/m"), spec=BaseModelSpec(storage=storage))
    demand = base_model_demand("ClusterBaseModel", ours)
    assert (demand.node_affinity, demand.placeable) == (affinity, True), "administrators are trusted with the cost"


def test_an_invalid_priority_counts_as_zero() -> None:
    assert base_model_demand("C", base("m", "hf://o/m", annotations={"larder.dev/priority": "high"})).priority == 0
    assert base_model_demand("C", base("m", "hf://o/m", annotations={"larder.dev/priority": "-3"})).priority == -3


def test_an_extreme_priority_is_clamped() -> None:
    for text, priority in (("9" * 40, 10**9), ("-" + "9" * 40, -(10**9)), ("9" * 5000, 0)):
        assert (
            base_model_demand("C", base("m", "hf://o/m", annotations={"larder.dev/priority": text})).priority
            == priority
        )
