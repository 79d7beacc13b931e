"""Metrics of models; only the `MAX_NAMED` models that have been unready the longest get a label of their own."""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from heapq import nsmallest
from typing import assert_never

from prometheus_client.core import GaugeMetricFamily, Metric

from controller.placement.demand import Demand
from controller.placement.demand_of_kind import Declared
from controller.state.cluster_state import ClusterState
from controller.state.keys import ModelKey
from shared.api.base_model import BaseModel
from shared.api.cluster_model_cache import ClusterModelCache
from shared.api.kinds import MODEL_CACHE
from shared.api.meta import condition_of

MAX_NAMED = 200
_NEW = "New"


def model_gauges(cluster: ClusterState) -> Iterator[Metric]:
    """Yield the number of models by state, and when models became unready."""
    yield _by_state(cluster)
    yield _not_ready(cluster)


def _declared(cluster: ClusterState) -> Iterator[tuple[ModelKey, Demand, Declared]]:
    for key, demand in cluster.models.demands.items():
        declared = cluster.declared(key)
        if declared is not None and not demand.foreign:
            yield key, demand, declared


def _by_state(cluster: ClusterState) -> Metric:
    family = GaugeMetricFamily("larder_declared_models", "Models by kind and state.", labels=["kind", "state"])
    counts = Counter((key.kind, _state(declared)) for key, _, declared in _declared(cluster))
    counts.update((MODEL_CACHE.kind, cache.status.storage_status or _NEW) for cache in cluster.model_caches)
    for labels, count in sorted(counts.items()):
        family.add_metric(labels, count)
    return family


def _not_ready(cluster: ClusterState) -> Metric:
    family = GaugeMetricFamily(
        "larder_model_not_ready_since_timestamp_seconds",
        f"When a model that nodes should hold became unready, for at most {MAX_NAMED} models.",
        labels=["kind", "model"],
    )
    waiting = ((since, key.kind, demand.id) for key, demand, d in _declared(cluster) if (since := _since(demand, d)))
    for since, kind, identity in nsmallest(MAX_NAMED, waiting):
        family.add_metric([kind, identity], since)
    return family


def _state(declared: Declared) -> str:
    """Return the state in the kind's own spelling, as in the output of `kubectl get`."""
    match declared:
        case BaseModel():
            return declared.status.state or _NEW
        case ClusterModelCache():
            return declared.status.storage_status or _NEW
        case _:
            assert_never(declared)


def _since(demand: Demand, declared: Declared) -> float:
    """Return when a model became unready, in Unix seconds; 0 if it is ready or no node should hold it."""
    if not (demand.placeable or demand.invalid):
        return 0.0
    ready = condition_of(declared.status.conditions, "Ready")
    if ready is not None and ready.status == "True":
        return 0.0
    return datetime.fromisoformat(ready.last_transition_time if ready else demand.created).timestamp()
