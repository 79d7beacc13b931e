"""Conditions on a model's revisions: drifted upstream, refreshed, updating, removing an old one, too large."""

from collections.abc import Iterable, Iterator

from controller.manager.conditions import DRIFTED, LARGER, REFRESHED, REMOVING, UPDATING, ConditionUpdate
from controller.models.rollout import Rollout
from controller.models.view import ModelView, PendingRemoval
from controller.placement.demand import Resolution
from shared.api.meta import condition_of
from shared.quantity import format_bytes

EVENT_CONDITIONS = (DRIFTED, UPDATING, LARGER)
ACTIVE_CONDITIONS = (DRIFTED, UPDATING, REMOVING, LARGER)  # conditions that matter to users while they hold
_MAX_SHOWN = 3
_SHORT = 12


def first_few(names: Iterable[str]) -> str:
    """Return the first names, and how many more there are."""
    listed = list(names)
    more = f" and {len(listed) - _MAX_SHOWN} more" if len(listed) > _MAX_SHOWN else ""
    return ", ".join(listed[:_MAX_SHOWN]) + more


def short(revision: str) -> str:
    """Return a revision shortened for display."""
    return revision[:_SHORT]


def revision_conditions(view: ModelView, rollout: Rollout) -> Iterator[ConditionUpdate]:
    """Yield the conditions to write; all others stay unchanged."""
    wanted = (_drifted(view), _refreshed(view), _updating(view, rollout), _removing(view), _larger(view))
    yield from (condition for condition in wanted if condition is not None)


def removal_message(removals: Iterable[PendingRemoval]) -> str:
    """Return why unwanted files of the model are still on nodes: their users, or the progress of the removal."""
    listed = [f"revision {short(r.revision)} on {r.node}: {_state(r)}" for r in removals]
    more = f"; and {len(listed) - _MAX_SHOWN} more" if len(listed) > _MAX_SHOWN else ""
    return "; ".join(listed[:_MAX_SHOWN]) + more


def _state(removal: PendingRemoval) -> str:
    if removal.in_use:
        return f"kept while in use by {first_few(removal.users) or 'pods on the node'}"
    if removal.agent_away:
        return f"removed once the node has a ready agent again (`larder why node/{removal.node}`)"
    if removal.total_bytes:
        return f"{format_bytes(removal.done_bytes)} of at most {format_bytes(removal.total_bytes)} are gone"
    return "being removed"


def _cleared(view: ModelView, kind: str, reason: str, message: str) -> ConditionUpdate | None:
    """Return the condition as False, or None if it never existed."""
    return ConditionUpdate(kind, "False", reason, message) if condition_of(view.status.conditions, kind) else None


def up_to_date(resolution: Resolution) -> ConditionUpdate:
    """Return the condition that the source still has the resolved revision."""
    message = f"{resolution.uri} was at revision {resolution.revision} when last checked"
    return ConditionUpdate(DRIFTED, "False", "UpToDate", message)


def _drifted(view: ModelView) -> ConditionUpdate | None:
    demand, before = view.demand, condition_of(view.status.conditions, DRIFTED)
    if demand.resolution is None or not demand.placeable:
        return _cleared(view, DRIFTED, "NotResolved", "there is no resolved revision to compare with the source")
    if view.upstream and view.upstream.failure:
        failure = view.upstream.failure
        return ConditionUpdate(
            DRIFTED, "Unknown", failure.reason, f"the source could not be checked: {failure.message}"
        )
    resolved, upstream = demand.resolution.revision, view.upstream_revision
    if not upstream or (view.upstream is None and before and before.status == "Unknown"):
        return None
    if upstream == resolved:
        checked = view.upstream is not None or view.drift_check_in_s is not None or before is not None
        return up_to_date(demand.resolution) if checked else None
    message = f"{demand.uri} is now at revision {upstream}, while nodes use {resolved}"
    if demand.follows:
        failed = f"; it is not resolved yet: {view.failure.reason}: {view.failure.message}" if view.failure else ""
        following = "; larder.dev/drift is Follow, so nodes will download it"
        return ConditionUpdate(DRIFTED, "True", "Following", f"{message}{following}{failed}")
    return ConditionUpdate(
        DRIFTED,
        "True",
        "SourceMoved",
        f"{message}; to download it, set the annotation larder.dev/refresh to a new value, or larder.dev/drift to "
        "Follow to download every new revision",
    )


def _refreshed(view: ModelView) -> ConditionUpdate | None:
    if not view.demand.refresh_pending or not view.demand.placeable:
        return _refresh_ended(view)
    waiting = f"refresh {view.demand.refresh!r} is waiting"
    if view.conflict is not None:
        return ConditionUpdate(REFRESHED, "False", "NameConflict", f"{waiting}: an older object has this model id")
    if view.failure is not None:
        return ConditionUpdate(REFRESHED, "False", view.failure.reason, f"{waiting}: {view.failure.message}")
    return ConditionUpdate(REFRESHED, "False", "Asking", f"{waiting} for the source")


def _refresh_ended(view: ModelView) -> ConditionUpdate | None:
    """Return the condition for a refresh that ended without a report: it was withdrawn, or is on record."""
    before, demand = condition_of(view.status.conditions, REFRESHED), view.demand
    if before is None or before.status == "True" or demand.refresh_pending:
        return None
    if demand.refresh and demand.resolution is not None:
        message = f"refresh {demand.refresh!r} is complete: the source is at revision {demand.resolution.revision}"
        return ConditionUpdate(REFRESHED, "True", "Answered", message)
    return ConditionUpdate(REFRESHED, "True", "Withdrawn", "the refresh request was withdrawn")


def _updating(view: ModelView, rollout: Rollout) -> ConditionUpdate | None:
    resolution, failure, serving = view.demand.resolution, view.failure, short(rollout.serving)
    if not view.demand.placeable:
        return _cleared(view, UPDATING, "NotStocked", "no node should have it")
    if not rollout.updating:
        return _cleared(view, UPDATING, "UpToDate", f"pods get revision {serving}, the latest that was resolved")
    old = f"pods get revision {serving} until"
    if resolution is None:
        reason, message = (failure.reason, failure.message) if failure else ("Resolving", "querying the source")
        return ConditionUpdate(UPDATING, "True", reason, f"{old} another one is resolved: {message}")
    message = f"{old} every live node has {short(resolution.revision)}; {rollout.counts()}"
    if not rollout.failed:
        return ConditionUpdate(UPDATING, "True", "Downloading", message)
    failed = rollout.failed[0]
    return ConditionUpdate(UPDATING, "True", failed.reason or "Failed", f"{message}; {failed.name}: {failed.message}")


def _removing(view: ModelView) -> ConditionUpdate | None:
    if not view.removals:
        return _cleared(view, REMOVING, "Gone", "no node has unwanted files of this model")
    reason = "InUse" if any(r.in_use for r in view.removals) else "Removing"
    return ConditionUpdate(REMOVING, "True", reason, removal_message(sorted(view.removals, key=lambda r: not r.in_use)))


def _larger(view: ModelView) -> ConditionUpdate | None:
    """Return the condition for a model that needs more space than its spec declares."""
    resolution, declared_bytes = view.demand.resolution, view.demand.declared_bytes
    if resolution is None or not declared_bytes:
        return _cleared(view, LARGER, "NotDeclared", "there is no size to compare: spec.modelSize is not set, or "
                        "the source is not resolved")  # fmt: skip
    size, declared = format_bytes(resolution.size_bytes), format_bytes(declared_bytes)
    if resolution.size_bytes <= declared_bytes:
        return _cleared(view, LARGER, "AsDeclared", f"the model needs {size}, and spec.modelSize is {declared}")
    return ConditionUpdate(
        LARGER,
        "True",
        "ModelSize",
        f"the model needs {size} ({resolution.size_bytes} bytes), but spec.modelSize is {declared}; nodes reserve what "
        "it needs. Correct spec.modelSize, or leave files out with spec.allowPatterns or spec.ignorePatterns",
    )
