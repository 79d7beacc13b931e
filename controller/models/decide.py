"""Decides from a view of a model what to do for it. No input or output, no clock."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

from controller.manager.actions import AddFinalizer, RemoveFinalizer, Requeue, Resolve
from controller.models.report import Report, report
from controller.models.view import ModelView
from controller.placement.demand import Resolution
from shared.errors import SourceChanged


@dataclass(frozen=True, slots=True)
class RecordResolution:
    """Record the resolution, which all nodes fetch from now on.

    `number` orders it among the resolutions of objects that share the model; `refreshed` is the refresh it answers.
    """

    resolution: Resolution
    number: int = 0
    refreshed: str = ""


@dataclass(frozen=True, slots=True)
class DiscardAnswer:
    """Discard the source's answer, because the status already says the same."""


@dataclass(frozen=True, slots=True)
class CheckDrift:
    """Ask the source for its current revision, without changing anything on the nodes."""


@dataclass(frozen=True, slots=True)
class WriteStatus:
    """Report the state to the user."""

    report: Report


Action: TypeAlias = (
    AddFinalizer | RemoveFinalizer | Resolve | RecordResolution | DiscardAnswer | CheckDrift | WriteStatus | Requeue
)
_USERS_POLL_S = 30.0
_LAST_USER_POLL_S = 10.0  # KServe's services are not watched


def decide(view: ModelView, now: datetime, finalizer_s: float) -> list[Action]:
    """Return the actions, in order."""
    if view.deleted_at is not None:
        return _decide_deleted(view, now, finalizer_s)
    if view.demand.foreign:
        return []
    actions: list[Action] = []
    demand = view.demand
    if demand.placeable and not view.has_finalizer:
        actions.append(AddFinalizer())
    if not demand.placeable or view.conflict is not None:
        return [*actions, WriteStatus(report(view))]
    if record := _recordable(view):
        return [*actions, record]
    if view.answer is not None:
        actions.append(DiscardAnswer())
    if _must_resolve(view) and view.may_resolve:
        actions.append(Resolve())
    elif view.drift_check_in_s == 0:
        actions.append(CheckDrift())
    poll = [Requeue(_USERS_POLL_S)] if any(removal.in_use for removal in view.removals) else []
    return [*actions, WriteStatus(report(view)), *poll]


def _recordable(view: ModelView) -> RecordResolution | None:
    """Return the resolution to record, from the source's answer or a newer one of another object, or None."""
    demand, answer = view.demand, view.answer
    if answer is None:
        return RecordResolution(view.existing, view.highest_number, demand.refreshed) if view.existing else None
    changed = answer.resolution != demand.resolution
    is_recorded = answer.refresh in ("", demand.refreshed) and demand.upstream in ("", answer.resolution.revision)
    if not changed and is_recorded:
        return None
    number = view.highest_number + 1 if changed else demand.number
    return RecordResolution(answer.resolution, number, answer.refresh or demand.refreshed)


def _must_resolve(view: ModelView) -> bool:
    demand = view.demand
    is_requested = demand.refresh_pending or (demand.follows and view.is_drifted)
    return demand.resolution is None or is_requested or _has_moved(view)


def _has_moved(view: ModelView) -> bool:
    """Return whether a node found that the source no longer matches the resolution."""
    return any(n.status is not None and n.status.reason == SourceChanged.__name__ for n in view.nodes)


def _decide_deleted(view: ModelView, now: datetime, finalizer_s: float) -> list[Action]:
    if not view.has_finalizer:
        return []
    if view.users or view.users_problem:
        return [WriteStatus(report(view)), Requeue(_LAST_USER_POLL_S)]
    end = datetime.fromisoformat(view.deleted_at or "") + timedelta(seconds=finalizer_s)
    if not view.remaining or now >= end:
        return [RemoveFinalizer()]
    return [WriteStatus(report(view)), Requeue(max((end - now).total_seconds(), 1))]
