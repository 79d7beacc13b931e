"""Models with their nodes as a reconcile sees them, and the status that it writes."""

from datetime import UTC, datetime
from typing import Any

from controller.models.report import report
from controller.models.status import base_model_status, cache_status
from controller.models.view import ModelView, TargetNode
from controller.placement.demand import Demand, Resolution
from shared.api.base_model import BaseModelStatus
from shared.api.cluster_model_cache import ClusterModelCacheStatus
from shared.api.model_node import EntryStatus
from tests.builders.demands import demand

NOW = datetime(2026, 6, 1, 12, 0, 0, tzinfo=UTC)
STAMP, LATER = "2026-06-01T12:00:00Z", "2026-06-01T13:00:00Z"
R2 = Resolution("hf://o/m@main", "r2", "d" * 64, 1000, 4)


def node(name: str, phase: str = "", *, ready: bool = True, agent: bool = True, **status: Any) -> TargetNode:
    reported = EntryStatus(id="m", revision="r2", phase=phase, **status) if phase else None
    return TargetNode(name, ready, agent, reported)


def view(*nodes: TargetNode, resolution: Resolution | None = R2, **fields: Any) -> ModelView:
    of_demand = {k: fields.pop(k) for k in list(fields) if k in Demand.__slots__}
    wanted = demand(resolution=resolution, **({"uid": "u1"} | of_demand))
    known: dict[str, Any] = {
        "generation": 3,
        "deleted_at": None,
        "has_finalizer": True,
        "status": ClusterModelCacheStatus(),
        "conflict": None,
        "remaining": (),
        "existing": None,
        "answer": None,
        "failure": None,
        "may_resolve": True,
    }
    return ModelView(demand=wanted, nodes=nodes, **(known | fields))


def cache(
    seen: ModelView, before: ClusterModelCacheStatus | None = None, stamp: str = STAMP
) -> ClusterModelCacheStatus:
    return cache_status(seen, report(seen), before or ClusterModelCacheStatus(), stamp)


def base(seen: ModelView) -> BaseModelStatus:
    return base_model_status(seen, report(seen), BaseModelStatus(), STAMP)


def ready(status: ClusterModelCacheStatus | BaseModelStatus) -> tuple[str, str]:
    condition = next(c for c in status.conditions if c.type == "Ready")
    return condition.status, condition.reason
