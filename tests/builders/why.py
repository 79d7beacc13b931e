"""Clusters as `larder why` sees them: healthy, and with one problem."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from controller.cli.why.findings import Diagnosis, Severity
from controller.cli.why.kinds import ObservedNode, ObservedNodeSpec, ObservedNodeStatus, ObservedPod, ObservedPodStatus
from controller.cli.why.models import why_model
from controller.cli.why.view import ClusterView, DeclaredModel, LeaseHolder
from controller.placement.demand_of_kind import base_model_demand, cache_demand
from shared.api.base_model import BaseModel
from shared.api.cluster_model_cache import ClusterModelCache
from shared.api.core import ObservedCondition
from shared.api.meta import Condition, NodeState
from shared.api.model_node import ModelNode
from shared.names import ready_label, snapshot_label
from tests.builders.cluster import (
    cache,
    conditions,
    entry,
    entry_status,
    group,
    meta,
    model_node,
)

GPU = {"gpu": "yes"}
LABELS = {ready_label("m"): "true", snapshot_label("m", "r1"): "true"}


def node(name: str, labels: Mapping[str, str] | None = None, *, ready: bool = True, **spec: Any) -> ObservedNode:
    status = ObservedNodeStatus(conditions=conditions(ready=ready).conditions)
    return ObservedNode(metadata=meta(name, labels=dict(labels or {})), spec=ObservedNodeSpec(**spec), status=status)


def agent(name: str, *, ready: bool = True, **status: Any) -> ObservedPod:
    reported = ObservedPodStatus(
        conditions=[ObservedCondition(type="Ready", status="True" if ready else "False")], **status
    )
    return ObservedPod(metadata=meta(f"agent-{name}", namespace="larder-system"), status=reported)


def reported(reason: str, message: str = "", kind: str = "Resolved", status: str = "False") -> Condition:
    return Condition(type=kind, status=status, reason=reason, message=message, last_transition_time="")


def declared(model: ClusterModelCache | BaseModel, *states: NodeState, says: Iterable[Condition] = ()) -> DeclaredModel:
    if isinstance(model, ClusterModelCache):
        kind, demand = "ClusterModelCache", cache_demand("ClusterModelCache", model)
    else:
        kind = "BaseModel" if model.metadata.namespace else "ClusterBaseModel"
        demand = base_model_demand(kind, model)
    status = msgspec.structs.replace(model.status, conditions=list(says), observed_generation=1)
    return DeclaredModel(demand, model.metadata, status, {s.name: s for s in states})


def seen(*models: DeclaredModel, **fields: Any) -> ClusterView:
    """A healthy cluster of two nodes in a group: cache m is Ready on both."""
    nodes = (node("a", GPU | LABELS), node("b", GPU | LABELS))
    well = ClusterView(
        models=models or (declared(cache("m", "gpus")),),
        groups=(group("gpus", GPU),),
        nodes=nodes,
        model_nodes={n: node_with_model(n) for n in ("a", "b")},
        agents={n: (agent(n),) for n in ("a", "b")},
        leader=LeaseHolder("controller-0"),
    )
    return replace(well, **fields)


def node_with_model(name: str, phase: str = "Ready", reason: str = "", message: str = "", **fields: Any) -> ModelNode:
    found = model_node(
        name, entry("m", granted=True), reported=[entry_status("m", phase, reason=reason, message=message)]
    )
    return with_status(found, observed_generation=1, protocol=1, **fields)


def with_status(found: ModelNode, **fields: Any) -> ModelNode:
    return msgspec.structs.replace(found, status=msgspec.structs.replace(found.status, **fields))


def with_entry(found: ModelNode, **fields: Any) -> ModelNode:
    entries = [msgspec.structs.replace(e, **fields) for e in found.spec.entries]
    return msgspec.structs.replace(found, spec=msgspec.structs.replace(found.spec, entries=entries))


def at_a(found: ModelNode, **fields: Any) -> ClusterView:
    return seen(model_nodes={"a": found, "b": node_with_model("b")}, **fields)


def reasons(answer: Diagnosis, *weights: Severity) -> set[str]:
    return {f.reason for f in answer.findings if f.severity in (weights or (Severity.STOP, Severity.WAIT))}


def of_model(cluster: ClusterView) -> Diagnosis:
    return why_model(cluster.models[0], cluster)
