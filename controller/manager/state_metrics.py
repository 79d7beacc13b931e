"""What the leader knows of models, nodes, grants and its queue, read at each scrape; other replicas say nothing."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from heapq import nsmallest
from typing import assert_never

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from controller.placement.demand import Declared, Demand
from controller.state.cluster_state import ClusterState
from controller.state.keys import ModelKey
from shared.api.base_model import BaseModel
from shared.api.cluster_model_cache import ClusterModelCache
from shared.api.meta import condition_of

MOST_NAMED = 200
_NEW = "New"
_AGENT_READY, _AGENT_AWAY, _NOT_READY = "AgentReady", "AgentAway", "NotReady"


@dataclass(frozen=True, eq=False)  # a registry keeps its collectors by identity
class Census(Collector):
    """The leader's gauges. Models have a label each only while they are not ready, the oldest `MOST_NAMED` of them."""

    cluster: ClusterState
    granted: Collection[str]
    queued: Callable[[], int]
    is_leading: Callable[[], bool]

    def collect(self) -> Iterator[Metric]:
        """Yield every gauge, or none on a replica that does not lead."""
        if not self.is_leading():
            return
        yield _gauge("larder_controller_queue_length", "Keys that wait for a turn.", self.queued())
        yield _gauge("larder_controller_grants_in_use", "Nodes that hold a grant to download.", len(self.granted))
        yield self._models()
        yield self._not_ready()
        yield self._nodes()

    def _declared(self) -> Iterator[tuple[ModelKey, Demand, Declared]]:
        for key, demand in self.cluster.demands.items():
            declared = self.cluster.declared(key)
            if declared is not None and not demand.foreign:
                yield key, demand, declared

    def _models(self) -> Metric:
        family = GaugeMetricFamily("larder_controller_models", "Models by kind and state.", labels=["kind", "state"])
        counts = Counter((key.kind, _state(declared)) for key, _, declared in self._declared())
        for labels, count in sorted(counts.items()):
            family.add_metric(labels, count)
        return family

    def _not_ready(self) -> Metric:
        family = GaugeMetricFamily(
            "larder_controller_model_not_ready_since_timestamp_seconds",
            f"Since when a model that nodes shall hold is not ready; of at most {MOST_NAMED} models.",
            labels=["kind", "model"],
        )
        waiting = ((since, key.kind, demand.id) for key, demand, d in self._declared() if (since := _since(demand, d)))
        for since, kind, identity in nsmallest(MOST_NAMED, waiting):
            family.add_metric([kind, identity], since)
        return family

    def _nodes(self) -> Metric:
        family = GaugeMetricFamily("larder_controller_nodes", "Nodes with a ModelNode, by state.", labels=["state"])
        counts = Counter(self._node_states())
        for state in (_AGENT_READY, _AGENT_AWAY, _NOT_READY):
            family.add_metric([state], counts[state])
        return family

    def _node_states(self) -> Iterable[str]:
        for model_node in self.cluster.model_nodes:
            node = self.cluster.node(model_node.metadata.name)
            if node is None or not node.ready:
                yield _NOT_READY
            else:
                yield _AGENT_READY if self.cluster.liveness.ready(node.metadata.name) else _AGENT_AWAY


def _state(declared: Declared) -> str:
    """Return the state in the kind's own word, as people read it in its table."""
    match declared:
        case BaseModel():
            return declared.status.state or _NEW
        case ClusterModelCache():
            return declared.status.storage_status or _NEW
        case _:
            assert_never(declared)


def _since(demand: Demand, declared: Declared) -> float:
    """Return since when a model is not ready, in seconds since 1970; 0 where it is, or where no node shall hold it."""
    if not (demand.stocked or demand.invalid):
        return 0.0
    ready = condition_of(declared.status.conditions, "Ready")
    if ready is not None and ready.status == "True":
        return 0.0
    return datetime.fromisoformat(ready.last_transition_time if ready else demand.created).timestamp()


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)
