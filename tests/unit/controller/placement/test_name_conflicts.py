from typing import Any

from controller.placement.demand_of_kind import base_model_demand, cache_demand
from controller.placement.name_conflicts import conflict_of
from shared.api.base_model import BaseModel, BaseModelSpec, Storage
from shared.api.cluster_model_cache import ClusterModelCache, ClusterModelCacheSpec
from shared.kube.objects import Meta


def base(name: str, uri: str, **meta: Any) -> BaseModel:
    fields: dict[str, Any] = {"uid": f"uid-{name}", "creation_timestamp": "2026-01-01T00:00:00Z"} | meta
    return BaseModel(metadata=Meta(name=name, **fields), spec=BaseModelSpec(storage=Storage(storage_uri=uri)))


def test_the_older_object_keeps_the_id() -> None:
    model = base_model_demand("ClusterBaseModel", base("m", "hf://o/m"))
    spec = ClusterModelCacheSpec(storage_uri="s3://bucket/other", node_group="g", node_groups=["g", "h"])
    meta = Meta(name="m", uid="cache", creation_timestamp="2026-01-02T00:00:00Z")
    cache = cache_demand("ClusterModelCache", ClusterModelCache(metadata=meta, spec=spec))
    assert cache.groups == ("g", "h")
    assert conflict_of(cache, [model, cache]) == model
    assert conflict_of(model, [model, cache]) is None


def test_the_loser_takes_over_while_the_first_is_deleted() -> None:
    going = base_model_demand("ClusterBaseModel", base("m", "hf://o/m", deletion_timestamp="2026-02-01T00:00:00Z"))
    later = base_model_demand("ClusterBaseModel", base("m", "hf://o/n", uid="later"))
    assert conflict_of(later, [going, later]) is None


def test_objects_with_the_same_source_do_not_conflict() -> None:
    model = base_model_demand("ClusterBaseModel", base("m", "hf://o/m"))
    spec = ClusterModelCacheSpec(storage_uri="hf://o/m:main")
    cache = cache_demand("ClusterModelCache", ClusterModelCache(metadata=Meta(name="m", uid="z"), spec=spec))
    assert conflict_of(cache, [model, cache]) is None
    assert conflict_of(model, [model, cache]) is None
