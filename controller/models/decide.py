"""From a view of a model to what is to be done for it. No input or output, no clock."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

from controller.models.report import Report, report
from controller.models.view import ModelView
from controller.placement.demand import Resolution
from shared.errors import SourceChanged


@dataclass(frozen=True, slots=True)
class AddFinalizer:
    """The files must go before the object does."""


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Nothing is left to clean, or nobody answers."""


@dataclass(frozen=True, slots=True)
class Resolve:
    """Have the source asked for the commit and the list of files; its answer comes with a later view."""


@dataclass(frozen=True, slots=True)
class Record:
    """Write what the source was resolved to: all nodes fetch that from now on."""

    resolution: Resolution


@dataclass(frozen=True, slots=True)
class WriteStatus:
    """Tell the user."""

    report: Report


@dataclass(frozen=True, slots=True)
class Again:
    """Nothing to do before some time has passed."""

    after_s: float


Action: TypeAlias = AddFinalizer | RemoveFinalizer | Resolve | Record | WriteStatus | Again


def decide(view: ModelView, now: datetime, finalizer_s: float) -> list[Action]:
    """Return what to do, in order."""
    if view.deleted_at is not None:
        return _decide_deleted(view, now, finalizer_s)
    if view.demand.foreign:
        return []
    actions: list[Action] = []
    demand = view.demand
    if demand.stocked and not view.has_finalizer:
        actions.append(AddFinalizer())
    if not demand.stocked or view.conflict is not None:
        return [*actions, WriteStatus(report(view))]
    answer = view.found or view.kept
    if answer is not None and answer != demand.resolution:
        return [*actions, Record(answer)]
    if (demand.resolution is None or _has_moved(view)) and view.may_resolve:
        actions.append(Resolve())
    return [*actions, WriteStatus(report(view))]


def _has_moved(view: ModelView) -> bool:
    """Return whether a node found that the source is no longer what was resolved."""
    return any(n.status is not None and n.status.reason == SourceChanged.__name__ for n in view.nodes)


def _decide_deleted(view: ModelView, now: datetime, finalizer_s: float) -> list[Action]:
    if not view.has_finalizer:
        return []
    end = datetime.fromisoformat(view.deleted_at or "") + timedelta(seconds=finalizer_s)
    if not view.remaining or now >= end:
        return [RemoveFinalizer()]
    return [WriteStatus(report(view)), Again(max((end - now).total_seconds(), 1))]
