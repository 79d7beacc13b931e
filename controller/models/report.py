"""What users see of a model: counts, a phase per node, one reason. No input or output, no clock."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from controller.manager.conditions import ConditionUpdate
from controller.models.revisions import first_few, removal_message, revision_conditions, short
from controller.models.rollout import NOT_READY, UNDER_WAY, Rollout, derive_rollout
from controller.models.view import ModelView
from controller.placement.demand import Demand
from controller.placement.name_conflicts import difference
from shared.api.meta import NodeState
from shared.api.model_node import EVICTED

MAX_LISTED = 100
_MAX_MESSAGE = 1024

Overall = Literal["Pending", "Downloading", "Ready", "Failed", "Deleting"]


@dataclass(frozen=True, slots=True)
class Report:
    """The content of a status, independent of the kind it is written to.

    `complete`: every Ready target node has the revision that pods get; `resolved`: the source's answer is known.
    `nodes` describes the resolved revision; `ready` names the nodes with the revision that pods get.
    """

    overall: Overall
    complete: bool
    resolved: bool
    reason: str
    message: str
    serving: str
    nodes: tuple[NodeState, ...]
    ready: tuple[str, ...]
    failed: tuple[str, ...]
    resolved_reason: str
    resolved_message: str
    conditions: tuple[ConditionUpdate, ...] = ()

    @property
    def total(self) -> int:
        """The number of target nodes, including those that are not Ready."""
        return len(self.nodes)


_Summary: TypeAlias = tuple[Overall, str, str]  # the state, its reason, and a message
_Rule: TypeAlias = Callable[[ModelView, Rollout], _Summary | None]


def report(view: ModelView) -> Report:
    """Return the report for a model."""
    rollout = derive_rollout(view)
    overall, reason, message = next(s for rule in _RULES if (s := rule(view, rollout)) is not None)
    resolved_reason, resolved_message = _resolved(view)
    ready = frozenset(rollout.ready)
    return Report(
        overall=overall,
        complete=rollout.complete,
        resolved=view.demand.resolution is not None,
        reason=reason,
        message=message[:_MAX_MESSAGE],
        serving=rollout.serving,
        nodes=rollout.nodes,
        ready=rollout.ready,
        failed=tuple(n.name for n in rollout.failed if n.name not in ready),
        resolved_reason=resolved_reason,
        resolved_message=resolved_message[:_MAX_MESSAGE],
        conditions=tuple(revision_conditions(view, rollout)),
    )


def _being_deleted(view: ModelView, _: Rollout) -> _Summary | None:
    if view.deleted_at is None:
        return None
    if view.users:
        users = first_few(view.users)
        return "Deleting", "InUse", f"still in use by {users}; delete them, or wait until they end"
    if view.users_problem:
        return (
            "Deleting",
            "UsersUnknown",
            f"what still uses it cannot be read: {view.users_problem}; Larder tries again",
        )
    detail = f" ({removal_message(view.removals)})" if view.removals else ""
    return "Deleting", "Deleting", f"waiting for {first_few(view.remaining)} to remove the files{detail}"


def _not_placeable(view: ModelView, _: Rollout) -> _Summary | None:
    demand = view.demand
    if demand.invalid:
        return "Failed", "InvalidURI", demand.invalid
    if demand.refused:
        return "Failed", "SourceNotAllowed", demand.refused
    if demand.disabled:
        return (
            "Pending",
            "Disabled",
            "spec.disabled is true, so no node keeps the model; set it to false to download it",
        )
    if view.conflict is not None:
        return "Failed", "NameConflict", _conflict_message(demand, view.conflict)
    if demand.on_claim:
        return "Pending", "OnClaim", "the model is on a PersistentVolumeClaim, which pods mount; no node downloads it"
    return None


def _complete(_: ModelView, rollout: Rollout) -> _Summary | None:
    if not rollout.complete:
        return None
    message = rollout.counts()
    if rollout.updating:
        ready, revision = f"{len(rollout.ready)} of {len(rollout.nodes)} nodes", short(rollout.serving)
        message = f"{ready} have revision {revision}, which pods get; another revision is rolling out"
    return "Ready", "PartlyEvicted" if any(n.phase == EVICTED for n in rollout.nodes) else "Stocked", message


def _unresolved(view: ModelView, _: Rollout) -> _Summary | None:
    if view.demand.resolution is not None:
        return None
    if view.failure is None:
        return "Pending", "Resolving", "listing the files of the source"
    return ("Pending" if view.failure.retryable else "Failed"), view.failure.reason, view.failure.message


def _without_nodes(view: ModelView, rollout: Rollout) -> _Summary | None:
    if rollout.nodes:
        return None
    groups = view.demand.groups
    place = f"node group {', '.join(groups)}" if groups else "spec.storage.nodeSelector and nodeAffinity"
    return "Pending", "NoNodes", f"no node matches {place}; label a node or change the selector"


def _failing(_: ModelView, rollout: Rollout) -> _Summary | None:
    if not rollout.failed:
        return None
    first, names = rollout.failed[0], first_few(n.name for n in rollout.failed)
    overall: Overall = "Downloading" if any(n.phase in UNDER_WAY for n in rollout.nodes) else "Failed"
    return overall, first.reason or "Failed", f"{rollout.counts()}; {names}: {first.reason}: {first.message}"


def _without_live_nodes(_: ModelView, rollout: Rollout) -> _Summary | None:
    if any(n.phase not in (NOT_READY, EVICTED) for n in rollout.nodes):
        return None
    evicted = [n for n in rollout.nodes if n.phase == EVICTED]
    if not evicted:
        return "Pending", "NodesNotReady", rollout.counts()
    names = first_few(n.name for n in evicted)
    return "Pending", EVICTED, f"{rollout.counts()}; {names}: {evicted[0].message}"


def _downloading(_: ModelView, rollout: Rollout) -> _Summary | None:
    return "Downloading", "Downloading", rollout.counts()


# The first match decides. A model that pods can use stays Ready while a newer revision is being resolved.
_RULES: tuple[_Rule, ...] = (
    _being_deleted,
    _not_placeable,
    _complete,
    _unresolved,
    _without_nodes,
    _failing,
    _without_live_nodes,
    _downloading,
)


def _conflict_message(demand: Demand, other: Demand) -> str:
    return (
        f"{other.kind} {other.name} is older and has the same model id {other.id!r} with {difference(demand, other)}; "
        "recreate this one under another name, or delete the other"
    )


def _resolved(view: ModelView) -> tuple[str, str]:
    """Return the reason and the message of the Resolved condition."""
    if view.demand.resolution is not None:
        return "Resolved", f"revision {view.demand.resolution.revision}"
    if view.demand.refused:
        return "SourceNotAllowed", view.demand.refused
    if view.failure is not None:
        return view.failure.reason, view.failure.message
    return "Resolving", ""
