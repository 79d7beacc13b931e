"""Translates a report into each kind's own status."""

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from controller.manager.conditions import DRIFTED, REFRESHED, ConditionUpdate, with_conditions
from controller.models.decide import RecordResolution
from controller.models.kstatus import model_kstatus
from controller.models.report import MAX_LISTED, Report
from controller.models.revisions import first_few, up_to_date
from controller.models.view import ModelView
from shared.api.base_model import BaseModelStatus, State
from shared.api.cluster_model_cache import ClusterModelCacheStatus
from shared.api.meta import ModelStatus, NodeState, condition_of
from shared.api.model_node import Phase
from shared.quantity import printed_bytes

S = TypeVar("S", bound=ModelStatus)


def recorded_status(record: RecordResolution, before: S, stamp: str, generation: int) -> S:
    """Return the status with the recorded resolution."""
    resolution = record.resolution
    status = msgspec.structs.replace(
        before,
        source=resolution.uri,
        selection=resolution.selection,
        left_out=resolution.left_out,
        resolved_revision=resolution.revision,
        upstream_revision=resolution.revision,
        manifest_digest=resolution.manifest,
        size=resolution.size_bytes,
        printed_size=printed_bytes(resolution.size_bytes),
        files=resolution.files,
        resolution_number=record.number,
        refreshed=record.refreshed,
    )
    updates = [up_to_date(resolution)] if condition_of(before.conditions, DRIFTED) else []
    if record.refreshed != before.refreshed:
        updates.append(_refreshed(record, before))
    observed = before.observed_generation if before.observed_generation > 0 else generation  # Ready comes later
    return msgspec.structs.replace(status, conditions=with_conditions(before.conditions, updates, stamp, observed))


def _refreshed(record: RecordResolution, before: ModelStatus) -> ConditionUpdate:
    resolution = record.resolution
    unchanged = (before.source, before.resolved_revision) == (resolution.uri, resolution.revision)
    result = f"the source is {'still ' if unchanged else ''}at revision {resolution.revision}"
    message = f"refresh {record.refreshed!r} is complete: {result}"
    return ConditionUpdate(REFRESHED, "True", "Unchanged" if unchanged else "NewRevision", message)


def base_model_status(view: ModelView, report: Report, before: BaseModelStatus, stamp: str) -> BaseModelStatus:
    """Return OME's status: Ready with the first ready node, else Failed with a failed one, else In_Transit."""
    state: State = "In_Transit"
    if report.ready and report.overall != "Deleting":
        state = "Ready"
    elif report.failed or report.overall == "Failed":
        state = "Failed"
    status = _common_status(view, report, before, stamp, ready=state == "Ready")
    return msgspec.structs.replace(
        status,
        state=state,
        nodes_ready=list(report.ready[:MAX_LISTED]),  # the counts cover all nodes
        nodes_failed=list(report.failed[:MAX_LISTED]),
    )


def cache_status(
    view: ModelView, report: Report, before: ClusterModelCacheStatus, stamp: str
) -> ClusterModelCacheStatus:
    """Return the status of a ClusterModelCache: Ready when every Ready node of the group has the model."""
    status = _common_status(view, report, before, stamp, ready=report.overall == "Ready")
    return msgspec.structs.replace(status, storage_status=report.overall, printed_groups=first_few(view.demand.groups))


def _common_status(view: ModelView, report: Report, before: S, stamp: str, *, ready: bool) -> S:
    resolution, listed, ready_nodes = view.demand.resolution, _listed(report.nodes), set(report.ready)
    wanted = [
        ConditionUpdate("Ready", _truth(ready), report.reason, report.message),
        ConditionUpdate("Resolved", _truth(report.resolved), report.resolved_reason, report.resolved_message),
        *report.conditions,
        *model_kstatus(report, ready=ready),
    ]
    status = msgspec.structs.replace(
        before,
        conditions=with_conditions(before.conditions, wanted, stamp, view.generation),
        observed_generation=view.generation,
        serving_revision=report.serving,
        claim_revision=before.claim_revision or report.serving,
        upstream_revision=view.upstream_revision,
        nodes_total=report.total,
        nodes_ready_count=len(report.ready),
        nodes_failed_count=len(report.failed),
        ready=f"{len(report.ready)}/{report.total}",
        node_status={n.name: _spelled(Phase.READY if n.name in ready_nodes else n.phase) for n in listed},
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
        printed_size=printed_bytes(resolution.size_bytes),
    )


def _spelled(phase: str) -> str:
    """Return a phase as `nodeStatus` spells it: `ready`, `downloading`, `notReady`."""
    return phase[:1].lower() + phase[1:]


def _listed(nodes: Sequence[NodeState]) -> list[NodeState]:
    """Return all nodes, or the ones that need attention most if there are too many."""
    if len(nodes) <= MAX_LISTED:
        return list(nodes)
    return sorted(nodes, key=lambda n: (n.phase == Phase.READY, n.phase != Phase.FAILED, n.name))[:MAX_LISTED]


def _truth(holds: object) -> str:
    return "True" if holds else "False"
