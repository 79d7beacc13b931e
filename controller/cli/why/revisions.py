"""Explains the state of a model's revisions. No input or output, no clock."""

from collections.abc import Iterator

from controller.cli.why.findings import Finding, fact, some, stop, wait
from controller.cli.why.remedies import remedy
from controller.cli.why.view import ClusterView, DeclaredModel
from controller.manager.conditions import DRIFTED, LARGER, REFRESHED, REMOVING, UPDATING
from controller.models.kstatus import TRANSIENT
from controller.models.revisions import short
from shared.api.meta import Condition, condition_of
from shared.api.model_node import EntryState
from shared.quantity import format_bytes

_PASSING = ("Downloading", "Resolving", "Asking", *TRANSIENT)


def revision_findings(found: DeclaredModel, cluster: ClusterView) -> Iterator[Finding]:
    """Yield whether the source has moved, and whether a new revision is rolling out."""
    yield from _drift(condition_of(found.status.conditions, DRIFTED))
    yield from _refresh(found, condition_of(found.status.conditions, REFRESHED))
    yield from _update(found, condition_of(found.status.conditions, UPDATING))
    yield from _held(found, cluster)
    larger = condition_of(found.status.conditions, LARGER)
    if larger is not None and larger.status == "True":
        yield fact("size", LARGER, larger.message)


def removal_findings(found: DeclaredModel) -> Iterator[Finding]:
    """Yield what keeps files that are no longer wanted, or how far their removal is."""
    removing = condition_of(found.status.conditions, REMOVING)
    if removing is not None and removing.status == "True":
        yield wait("old files", removing.reason, removing.message, remedy(removing.reason))


def _drift(drifted: Condition | None) -> Iterator[Finding]:
    if drifted is None:
        return
    since = f" (since {drifted.last_transition_time})"
    if drifted.status == "True":
        yield fact("source", DRIFTED, drifted.message + since)
    elif drifted.status == "Unknown":
        yield fact("source", "NotChecked", f"{drifted.reason}: {drifted.message}{since}; nodes keep what they have")


def _refresh(found: DeclaredModel, refreshed: Condition | None) -> Iterator[Finding]:
    demand = found.demand
    if demand.refresh_pending:
        waits = refreshed is not None and refreshed.status == "False" and refreshed.reason != "Asking"
        reason = refreshed.reason if refreshed and waits else "Asking"
        message = refreshed.message if refreshed and waits else f"refresh {demand.refresh!r}: checking the source"
        to_finding = wait if reason in _PASSING else stop
        yield to_finding("refresh", reason, message, remedy(reason))
    elif refreshed is not None and refreshed.status == "True":
        yield fact("refresh", refreshed.reason, refreshed.message)


def _update(found: DeclaredModel, updating: Condition | None) -> Iterator[Finding]:
    demand = found.demand
    if updating is not None and updating.status == "True":
        to_finding = wait if updating.reason in _PASSING else stop
        yield to_finding("new revision", updating.reason, updating.message, _room_for_both(updating.reason))
    elif demand.resolution is not None and demand.serving not in ("", demand.resolution.revision):
        message = f"new pods still get revision {demand.serving}, until every live node has the new one"
        yield wait("new revision", "NewRevision", message)


def _room_for_both(reason: str) -> str:
    if reason != "InsufficientStorage":
        return remedy(reason)
    return f"both revisions must fit for a while: {remedy(reason)}; until then, pods get the old one"


def _held(found: DeclaredModel, cluster: ClusterView) -> Iterator[Finding]:
    """Yield which nodes list more than one revision, and the size of each."""
    several = []
    for name, model_node in sorted(cluster.model_nodes.items()):
        entries = [e for e in model_node.spec.entries if e.id == found.demand.id and e.state != EntryState.ABSENT]
        if len(entries) > 1:
            sizes = " and ".join(f"{short(e.revision)} ({format_bytes(e.size)})" for e in entries)
            several.append(f"{name}: {sizes}")
    if several:
        yield fact("nodes", "MultipleRevisions", some(several))
