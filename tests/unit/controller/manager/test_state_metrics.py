"""The leader exports metrics about models, nodes, grants and its queue; other replicas do not."""

from datetime import datetime

import msgspec
import pytest

from controller.manager.state_metrics import StateMetrics
from controller.models.state_metrics import MAX_NAMED
from controller.state.cluster_state import ClusterState
from shared.api.base_model import BaseModelStatus
from shared.api.meta import Condition
from shared.api.model_node import Entry, EntryState
from tests.builders.cluster import cache, cluster_model, controllers_of, fresh_cluster, model_node, node, pod

CREATED = datetime.fromisoformat("2026-01-01T00:00:00Z").timestamp()
SINCE = "2026-02-03T04:05:06Z"
NOT_READY = "larder_model_not_ready_since_timestamp_seconds"


def shown(cluster: ClusterState, *, leading: bool = True) -> dict[str, dict[tuple[str, ...], float]]:
    """Samples by metric and the values of their labels."""
    metrics = StateMetrics(lambda: leading, lambda: 3, [controller.gauges for controller in controllers_of(cluster)])
    return {f.name: {tuple(s.labels.values()): s.value for s in f.samples} for f in metrics.collect()}


def base(name: str, *, ready: str, state: str, **fields: object) -> object:
    """A cluster-wide model with a condition Ready since SINCE."""
    condition = Condition(type="Ready", status=ready, reason="x", last_transition_time=SINCE)
    status = BaseModelStatus(conditions=[condition], state=state)  # type: ignore[arg-type]
    return msgspec.structs.replace(cluster_model(name, {}, **fields), status=status)  # type: ignore[arg-type]


@pytest.fixture
def cluster() -> ClusterState:
    return fresh_cluster()


def test_only_the_leader_exports_state_metrics(cluster: ClusterState) -> None:
    cluster.cluster_model_caches.upsert(cache("llama", "gpus"))
    assert shown(cluster, leading=False) == {}
    assert shown(cluster)["larder_workqueue_depth"] == {(): 3}
    assert shown(cluster)["larder_grants_in_use"] == {(): 2}


def test_models_are_counted_by_kind_and_state(cluster: ClusterState) -> None:
    cluster.cluster_model_caches.upsert(cache("llama", "gpus"))
    for name in ("one", "two"):
        cluster.cluster_base_models.upsert(base(name, ready="True", state="Ready"))  # type: ignore[arg-type]
    assert shown(cluster)["larder_declared_models"] == {
        ("ClusterBaseModel", "Ready"): 2,
        ("ClusterModelCache", "New"): 1,
    }


def test_only_models_that_are_not_ready_are_exported_by_name(cluster: ClusterState) -> None:
    cluster.cluster_model_caches.upsert(cache("new", "gpus"))
    cluster.cluster_base_models.upsert(base("ready", ready="True", state="Ready"))  # type: ignore[arg-type]
    cluster.cluster_base_models.upsert(base("failed", ready="False", state="Failed"))  # type: ignore[arg-type]
    assert shown(cluster)[NOT_READY] == {
        ("ClusterModelCache", "new"): CREATED,
        ("ClusterBaseModel", "failed"): datetime.fromisoformat(SINCE).timestamp(),
    }


@pytest.mark.parametrize("uri", ["pvc://team/claim/models", "vendor://theirs"])
def test_a_model_without_target_nodes_does_not_count_as_unready(cluster: ClusterState, uri: str) -> None:
    cluster.cluster_base_models.upsert(base("m", ready="False", state="In_Transit", uri=uri))  # type: ignore[arg-type]
    assert shown(cluster)[NOT_READY] == {}


def test_a_uri_that_is_invalid_keeps_its_model_waiting(cluster: ClusterState) -> None:
    cluster.cluster_model_caches.upsert(cache("broken", "gpus", uri="ftp://x", revision=""))
    assert list(shown(cluster)[NOT_READY]) == [("ClusterModelCache", "broken")]


def test_only_the_oldest_unready_models_are_exported_by_name(cluster: ClusterState) -> None:
    for n in range(MAX_NAMED + 5):
        stamp = f"2026-01-01T{n // 60:02}:{n % 60:02}:00Z"
        cluster.cluster_model_caches.upsert(cache(f"m-{n:03}", "gpus", creation_timestamp=stamp))
    named = [labels[1] for labels in shown(cluster)[NOT_READY]]
    assert named == [f"m-{n:03}" for n in range(MAX_NAMED)]


def test_nodes_are_counted_by_their_agents(cluster: ClusterState) -> None:
    for name in ("served", "bare", "down", "gone"):
        cluster.model_nodes.upsert(model_node(name))
    for name, state in {"alone": EntryState.PRESENT, "left": EntryState.DRAINING}.items():
        cluster.model_nodes.upsert(model_node(name, Entry(id="m", revision="r1", state=state)))
    for name in ("served", "alone", "bare", "left", "unmanaged"):
        cluster.nodes.upsert(node(name))
    cluster.nodes.upsert(node("down", ready=False))
    cluster.agents.upsert(pod("agent-1", "served"))
    cluster.agents.upsert(pod("agent-2", "alone", ready=False))
    counts = {"AgentReady": 1, "AgentAway": 1, "AgentNotNeeded": 2, "NotReady": 2}
    assert shown(cluster)["larder_nodes"] == {(state,): n for state, n in counts.items()}
