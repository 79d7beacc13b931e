"""Conditions on a model's revisions: drifted upstream, refreshed, updating, removing an old one."""

from collections.abc import Iterable, Iterator

from controller.manager.conditions import DRIFTED, REFRESHED, REMOVING, UPDATING, ConditionUpdate
from controller.models.rollout import Rollout
from controller.models.view import ModelView, PendingRemoval
from controller.placement.demand import Resolution
from shared.api.meta import condition_of
from shared.quantity import format_bytes

EVENT_CONDITIONS = (DRIFTED, UPDATING)
ACTIVE_CONDITIONS = (DRIFTED, UPDATING, REMOVING)  # conditions that matter to users while they hold
_SHOWN = 3
_SHORT = 12


def first_few(names: Iterable[str], most: int = _SHOWN) -> str:
    """Return the first names, and how many more there are."""
    listed = list(names)
    return ", ".join(listed[:most]) + (f" and {len(listed) - most} more" if len(listed) > most else "")


def short(revision: str) -> str:
    """Return a revision shortened for display."""
    return revision[:_SHORT]


def revision_conditions(view: ModelView, rollout: Rollout) -> Iterator[ConditionUpdate]:
    """Yield the conditions to write; all others stay unchanged."""
    wanted = (_drifted(view), _refreshed(view), _updating(view, rollout), _removing(view))
    yield from (told for told in wanted if told is not None)


def removal_message(leaving: Iterable[PendingRemoval]) -> str:
    """Return what keeps unwanted files of the model on nodes, or how far their removal is."""
    listed = [f"revision {short(one.revision)} on {one.node}: {_state(one)}" for one in leaving]
    return "; ".join(listed[:_SHOWN]) + (f"; and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else "")


def _state(leaving: PendingRemoval) -> str:
    if leaving.in_use:
        return f"kept while {first_few(leaving.users) or 'pods on the node'} {_use(leaving)} it"
    if leaving.total_bytes:
        gone, in_all = format_bytes(leaving.done_bytes), format_bytes(leaving.total_bytes)
        return f"{gone} of at most {in_all} are gone"
    return "on its way out"


def _use(leaving: PendingRemoval) -> str:
    return "uses" if len(leaving.users) == 1 else "use"


def _cleared(view: ModelView, kind: str, reason: str, message: str) -> ConditionUpdate | None:
    """Return the condition as False, or None if it never existed."""
    return ConditionUpdate(kind, "False", reason, message) if condition_of(view.status.conditions, kind) else None


def up_to_date(resolution: Resolution) -> ConditionUpdate:
    """Return that the source still has the resolved revision."""
    words = f"revision {resolution.revision} is what {resolution.uri} had when it was last asked"
    return ConditionUpdate(DRIFTED, "False", "UpToDate", words)


def _drifted(view: ModelView) -> ConditionUpdate | None:
    demand, before = view.demand, condition_of(view.status.conditions, DRIFTED)
    if demand.resolution is None or not demand.placeable:
        return _cleared(view, DRIFTED, "NotResolved", "nothing is resolved that the source could differ from")
    if view.upstream and view.upstream.failure:
        trouble = view.upstream.failure
        return ConditionUpdate(
            DRIFTED, "Unknown", trouble.reason, f"the source could not be looked at: {trouble.message}"
        )
    have, upstream = demand.resolution.revision, view.upstream_revision
    if not upstream or (view.upstream is None and before and before.status == "Unknown"):
        return None
    if upstream == have:
        watched = view.upstream is not None or view.drift_check_in_s is not None or before is not None
        return up_to_date(demand.resolution) if watched else None
    words = f"{demand.uri} is revision {upstream} by now, nodes are to have {have}"
    if demand.follows:
        not_yet = f"; not yet, for {view.failure.reason}: {view.failure.message}" if view.failure else ""
        return ConditionUpdate(
            DRIFTED, "True", "Following", f"{words}; larder.dev/drift is Follow: it is taken{not_yet}"
        )
    return ConditionUpdate(
        DRIFTED,
        "True",
        "SourceMoved",
        f"{words}; set the annotation larder.dev/refresh to a new value to take it, or larder.dev/drift to Follow to "
        "take every such change",
    )


def _refreshed(view: ModelView) -> ConditionUpdate | None:
    if not view.demand.refresh_pending or not view.demand.placeable:
        return _no_more_asked(view)
    about = f"refresh {view.demand.refresh!r}"
    if view.conflict is not None:
        return ConditionUpdate(REFRESHED, "False", "NameConflict", f"{about} waits: an older object has this model id")
    if view.failure is not None:
        return ConditionUpdate(REFRESHED, "False", view.failure.reason, f"{about} waits: {view.failure.message}")
    return ConditionUpdate(REFRESHED, "False", "Asking", f"{about}: the source is being asked")


def _no_more_asked(view: ModelView) -> ConditionUpdate | None:
    """Return the end of a refresh not reported with its answer: it was withdrawn, or its object has a record."""
    before, demand = condition_of(view.status.conditions, REFRESHED), view.demand
    if before is None or before.status == "True" or demand.refresh_pending:
        return None
    if demand.refresh and demand.resolution is not None:
        words = f"refresh {demand.refresh!r} was answered: it is revision {demand.resolution.revision}"
        return ConditionUpdate(REFRESHED, "True", "Answered", words)
    return ConditionUpdate(REFRESHED, "True", "Withdrawn", "no refresh is asked for any more")


def _updating(view: ModelView, rollout: Rollout) -> ConditionUpdate | None:
    resolution, trouble, serving = view.demand.resolution, view.failure, short(rollout.serving)
    if not view.demand.placeable:
        return _cleared(view, UPDATING, "NotStocked", "no node is to have it")
    if not rollout.updating:
        return _cleared(view, UPDATING, "UpToDate", f"pods get revision {serving}, the newest that is resolved")
    old = f"pods get revision {serving} until"
    if resolution is None:
        reason, words = (trouble.reason, trouble.message) if trouble else ("Resolving", "the source is being asked")
        return ConditionUpdate(UPDATING, "True", reason, f"{old} another one is resolved: {words}")
    words = f"{old} every live node has {short(resolution.revision)}; {rollout.counts()}"
    if not rollout.failed:
        return ConditionUpdate(UPDATING, "True", "Downloading", words)
    failed = rollout.failed[0]
    return ConditionUpdate(UPDATING, "True", failed.reason or "Failed", f"{words}; {failed.name}: {failed.message}")


def _removing(view: ModelView) -> ConditionUpdate | None:
    if not view.removals:
        return _cleared(view, REMOVING, "Gone", "no node has files of it that nobody wants there")
    reason = "InUse" if any(one.in_use for one in view.removals) else "Removing"
    return ConditionUpdate(
        REMOVING, "True", reason, removal_message(sorted(view.removals, key=lambda one: not one.in_use))
    )
