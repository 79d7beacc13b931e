"""A report in the words of each kind's status."""

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from controller.models.report import MAX_LISTED, Report
from controller.models.view import ModelView
from shared.api.base_model import BaseModelStatus, State
from shared.api.cluster_model_cache import ClusterModelCacheStatus
from shared.api.meta import Condition, NodeState, StockStatus
from shared.api.model_node import Phase

S = TypeVar("S", bound=StockStatus)
_OURS = ("Ready", "Resolved")


def base_model_status(view: ModelView, report: Report, before: BaseModelStatus, stamp: str) -> BaseModelStatus:
    """Return OME's words: Ready with the first ready node, else Failed with a failed one, else In_Transit."""
    state: State = "In_Transit"
    if report.ready and report.overall != "Deleting":
        state = "Ready"
    elif report.failed or report.overall == "Failed":
        state = "Failed"
    stocked = _stock(view, report, before, stamp, ready=state == "Ready")
    return msgspec.structs.replace(
        stocked,
        state=state,
        nodes_ready=list(report.ready[:MAX_LISTED]),  # the counts tell of all
        nodes_failed=list(report.failed[:MAX_LISTED]),
    )


def cache_status(
    view: ModelView, report: Report, before: ClusterModelCacheStatus, stamp: str
) -> ClusterModelCacheStatus:
    """Return the proposal's words: Ready when every node of the group that is itself Ready has the model."""
    stocked = _stock(view, report, before, stamp, ready=report.overall == "Ready")
    return msgspec.structs.replace(stocked, storage_status=report.overall)


def _stock(view: ModelView, report: Report, before: S, stamp: str, *, ready: bool) -> S:
    resolution, listed = view.demand.resolution, _listed(report.nodes)
    wanted = [
        ("Ready", _truth(ready), report.reason, report.message),
        ("Resolved", _truth(report.resolved), report.resolved_reason, report.resolved_message),
    ]
    status = msgspec.structs.replace(
        before,
        conditions=[
            *(_condition(before.conditions, *w, stamp, view.generation) for w in wanted),
            *(c for c in before.conditions if c.type not in _OURS),
        ],
        observed_generation=view.generation,
        serving_revision=report.serving,
        nodes_total=report.total,
        nodes_ready_count=len(report.ready),
        nodes_failed_count=len(report.failed),
        ready=f"{len(report.ready)}/{report.total}",
        node_status={n.name: _word(n.phase) for n in listed},
        nodes=listed,
    )
    if resolution is None:
        return status
    return msgspec.structs.replace(
        status,
        source=resolution.uri,
        resolved_revision=resolution.revision,
        manifest_digest=resolution.manifest,
        size=resolution.size_bytes,
    )


def _word(phase: str) -> str:
    """Return the proposal's spelling: `ready`, `downloading`, `notReady`."""
    return phase[:1].lower() + phase[1:]


def _listed(nodes: Sequence[NodeState]) -> list[NodeState]:
    """Return all nodes, or where there are too many the ones that need attention most."""
    if len(nodes) <= MAX_LISTED:
        return list(nodes)
    return sorted(nodes, key=lambda n: (n.phase == Phase.READY, n.phase != Phase.FAILED, n.name))[:MAX_LISTED]


def _truth(holds: object) -> str:
    return "True" if holds else "False"


def _condition(
    before: Sequence[Condition],
    kind: str,
    status: str,
    reason: str,
    message: str,
    stamp: str,
    generation: int,
) -> Condition:
    old = next((c for c in before if c.type == kind), None)
    since = old.last_transition_time if old and old.status == status else stamp
    return Condition(
        type=kind,
        status=status,
        reason=reason,
        message=message,
        last_transition_time=since,
        observed_generation=generation,
    )
