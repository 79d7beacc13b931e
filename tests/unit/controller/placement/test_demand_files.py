"""The file selection of a model, from its own spec and from the cluster's default."""

from typing import Any

import pytest

from controller.placement.demand import Demand
from controller.placement.demand_of_kind import base_model_demand, cache_demand
from controller.placement.name_conflicts import conflict_of
from shared.api.base_model import BaseModel, BaseModelSpec, BaseModelStatus, Storage
from shared.api.cluster_model_cache import ClusterModelCache, ClusterModelCacheSpec
from shared.api.meta import LeftOut
from shared.kube.objects import Meta
from shared.selection.choice import WHOLE, Selection, make_selection

URI = "hf://o/m"
SOME = make_selection(["*.json"], duplicates="skip")


def base(selection: str = "", **parameters: str) -> BaseModel:
    return BaseModel(
        metadata=Meta(name="m", uid="base", creation_timestamp="2026-01-01T00:00:00Z"),
        spec=BaseModelSpec(storage=Storage(storage_uri=URI, parameters=parameters)),
        status=BaseModelStatus(
            source="hf://o/m@main",
            resolved_revision="c",
            manifest_digest="d" * 64,
            selection=selection,
            left_out=LeftOut(files=3, size=9) if selection else None,
        ),
    )


def cache(**fields: Any) -> Demand:
    spec = ClusterModelCacheSpec(storage_uri=URI, **fields)
    meta = Meta(name="m", uid="cache", creation_timestamp="2026-01-02T00:00:00Z")
    return cache_demand("ClusterModelCache", ClusterModelCache(metadata=meta, spec=spec))


def demand(model: BaseModel, files: Selection | None = WHOLE) -> Demand:
    return base_model_demand("ClusterBaseModel", model, files=files)


def test_caches_and_base_models_express_the_same_file_selection() -> None:
    fields = {"allow_patterns": ["*.json", "a,b"], "duplicate_weights": "skip", "allow_pickle": False}
    assert cache(**fields).selection == make_selection(["*.json", "a,b"], duplicates="skip", pickle=False)
    wished = base(allowPatterns="*.json", ignorePatterns="x\ny", duplicateWeights="skip", allowPickle="false")
    assert demand(wished).selection == make_selection(["*.json"], ["x", "y"], "skip", pickle=False)
    assert demand(base()).selection == cache().selection == WHOLE


def test_a_resolution_counts_only_for_the_files_that_were_chosen() -> None:
    assert demand(base()).resolution is not None
    assert demand(base(allowPatterns="*.json", duplicateWeights="skip")).resolution is None
    resolved = demand(base(SOME.key, allowPatterns="*.json", duplicateWeights="skip")).resolution
    assert resolved is not None
    assert (resolved.selection, resolved.left_out) == (SOME.key, LeftOut(files=3, size=9))
    assert demand(base(SOME.key)).resolution is None


def test_a_resolution_counts_only_for_the_current_choice_of_files() -> None:
    assert demand(base(), SOME).resolution is None
    assert demand(base(SOME.key), SOME).resolution is not None


def test_without_the_clusters_default_selection_the_recorded_resolution_counts() -> None:
    assert demand(base(SOME.key), None).resolution is not None
    assert demand(base(), None).resolution is not None


def test_a_different_file_selection_is_a_conflict_and_an_equal_one_is_not() -> None:
    older = demand(base(SOME.key, allowPatterns="*.json", duplicateWeights="skip"))
    same, whole = cache(allow_patterns=["*.json"], duplicate_weights="skip"), cache()
    assert conflict_of(same, [older, same]) is None
    assert conflict_of(whole, [older, whole]) == older
    assert conflict_of(older, [older, whole]) is None


@pytest.mark.parametrize("name", ["allowPickle", "duplicateWeights"])
def test_an_invalid_value_stops_the_model_and_is_reported(name: str) -> None:
    wrong = demand(base(**{name: "maybe"}))
    assert not wrong.placeable
    assert wrong.uri == ""
    assert f"storage.parameters.{name} is 'maybe'; write" in wrong.invalid
