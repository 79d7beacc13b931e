"""What the user is told of a model: counts, a phase a node, one reason."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from msgspec.structs import replace

from controller.manager.conditions import Told
from controller.models.revisions import is_updating, removal_words, revision_conditions, short, some
from controller.models.view import ModelView, TargetNode
from controller.placement.demand import difference
from controller.state.progress import coarse_percent
from shared.api.meta import NodeState
from shared.api.model_node import EVICTED, Phase

MAX_LISTED = 100
_MAX_MESSAGE = 1024
_MOST_REVISIONS = 8
_UNDER_WAY = (Phase.PENDING, Phase.WAITING, Phase.DOWNLOADING)
_HELD = (Phase.READY, Phase.REPAIRING, Phase.DOWNLOADING, Phase.DRAINING)

Overall = Literal["Pending", "Downloading", "Ready", "Failed", "Deleting"]


@dataclass(frozen=True, slots=True)
class Report:
    """The content of a status, in no kind's own words yet.

    `complete`: every target node that is itself Ready has the revision that pods get; `resolved`: the source's answer
    is known. `nodes` tell of the resolved revision, `ready` names those that have the one that pods get.
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
    conditions: tuple[Told, ...] = ()

    @property
    def total(self) -> int:
        """The number of target nodes, those that are not Ready included."""
        return len(self.nodes)


def report(view: ModelView) -> Report:
    """Return what to tell of a model."""
    nodes = tuple(_node_state(n, view) for n in sorted(view.nodes, key=lambda n: n.name))
    serving = _serving(view)
    ready = _serving_nodes(view, nodes, serving)
    having = set(ready)
    failed = tuple(n.name for n in nodes if n.phase == Phase.FAILED and n.name not in having)
    live = [n for n in nodes if n.phase not in ("NotReady", EVICTED)]
    known = view.demand.resolution is not None or is_updating(view, serving)
    complete = bool(having) and having.issuperset(n.name for n in live) and known
    overall, reason, message = _overall(view, nodes, _stocked_words(view, nodes, ready, serving) if complete else "")
    resolved_reason, resolved_message = _resolved_words(view)
    return Report(
        overall=overall,
        complete=complete,
        resolved=view.demand.resolution is not None,
        reason=reason,
        message=message[:_MAX_MESSAGE],
        serving=serving,
        nodes=nodes,
        ready=ready,
        failed=failed,
        resolved_reason=resolved_reason,
        resolved_message=resolved_message[:_MAX_MESSAGE],
        conditions=tuple(revision_conditions(view, serving, _counts(nodes), _first_failed(nodes))),
    )


def _node_state(node: TargetNode, view: ModelView) -> NodeState:
    resolution = view.demand.resolution
    told, revision = (node.status, resolution.revision) if resolution else (node.serving, view.demand.serving)
    state = NodeState(
        name=node.name, phase="NotReady", revision=revision, revisions=list(node.revisions[:_MOST_REVISIONS])
    )
    if not node.ready:
        return replace(state, message="the node is not Ready")
    if told is None and node.obstacle is not None:
        return replace(state, phase=Phase.FAILED, reason=node.obstacle.reason, message=node.obstacle.message)
    if told is None:
        why = "" if node.agent_ready else "no agent is ready on this node"
        return replace(state, phase=Phase.PENDING, message=why)
    percent = 100 if told.phase == Phase.READY else coarse_percent(node.done_bytes, node.total_bytes)
    phase = EVICTED if told.reason == EVICTED else told.phase
    if told.attempts and phase in _UNDER_WAY:
        phase = Phase.FAILED  # until bytes come, each attempt would change the state to and fro
    return replace(state, phase=phase, percent=percent, reason=told.reason, message=told.message)


def _serving_nodes(view: ModelView, nodes: tuple[NodeState, ...], serving: str) -> tuple[str, ...]:
    """Return the nodes, themselves Ready, that have the revision that pods get."""
    if not is_updating(view, serving):
        return tuple(n.name for n in nodes if n.phase == Phase.READY)
    having = (n.name for n in view.nodes if n.ready and n.serving is not None and n.serving.phase == Phase.READY)
    return tuple(sorted(having))


def _stocked_words(view: ModelView, nodes: tuple[NodeState, ...], ready: tuple[str, ...], serving: str) -> str:
    if not is_updating(view, serving):
        return _counts(nodes)
    return f"{len(ready)} of {len(nodes)} nodes have revision {short(serving)}, which pods get; another is on its way"


def _first_failed(nodes: tuple[NodeState, ...]) -> NodeState | None:
    return next((n for n in nodes if n.phase == Phase.FAILED), None)


def _overall(view: ModelView, nodes: tuple[NodeState, ...], stocked: str) -> tuple[Overall, str, str]:
    """Return the state, a reason and words; `stocked` are the words where every live node has what pods get."""
    demand = view.demand
    if view.deleted_at is not None:
        return "Deleting", *_why_it_stays(view)
    if demand.invalid:
        return "Failed", "InvalidURI", demand.invalid
    if demand.refused:
        return "Failed", "SourceNotAllowed", demand.refused
    if demand.disabled:
        return "Pending", "Disabled", "spec.disabled is true: no node keeps its files; set it to false to go on"
    if view.conflict is not None:
        return "Failed", "NameConflict", _conflict_words(view)
    if demand.on_claim:
        return "Pending", "OnClaim", "the model is on a claim: no node downloads it; pods mount the claim"
    if stocked:
        return "Ready", "PartlyEvicted" if any(n.phase == EVICTED for n in nodes) else "Stocked", stocked
    if demand.resolution is None:
        return _unresolved(view)
    if not nodes:
        return "Pending", "NoNodes", f"no node matches {_whereabouts(view)}; label a node, or change the selector"
    return _incomplete(nodes)


def _why_it_stays(view: ModelView) -> tuple[str, str]:
    if view.users:
        return "InUse", f"it goes when its last user does: {some(view.users)}; delete those, or let them end"
    detail = f" ({removal_words(view.leaving)})" if view.leaving else ""
    return "Deleting", f"waiting for {some(view.remaining)} to remove the files{detail}"


def _unresolved(view: ModelView) -> tuple[Overall, str, str]:
    trouble = view.trouble
    if trouble is None:
        return "Pending", "Resolving", "asking the source for its list of files"
    return ("Pending" if trouble.retryable else "Failed"), trouble.reason, trouble.message


def _incomplete(nodes: tuple[NodeState, ...]) -> tuple[Overall, str, str]:
    failed = [n for n in nodes if n.phase == Phase.FAILED]
    if failed:
        busy = any(n.phase in _UNDER_WAY for n in nodes)
        words = f"{_counts(nodes)}; {some(n.name for n in failed)}: {failed[0].reason}: {failed[0].message}"
        return ("Downloading" if busy else "Failed"), failed[0].reason or "Failed", words
    if all(n.phase == "NotReady" for n in nodes):
        return "Pending", "NodesNotReady", _counts(nodes)
    if all(n.phase in ("NotReady", EVICTED) for n in nodes):
        gone = [n for n in nodes if n.phase == EVICTED]
        return "Pending", EVICTED, f"{_counts(nodes)}; {some(n.name for n in gone)}: {gone[0].message}"
    return "Downloading", "Downloading", _counts(nodes)


def _counts(nodes: Iterable[NodeState]) -> str:
    counts = Counter(n.phase for n in nodes)
    total = counts.total()
    others = ", ".join(f"{count} {phase}" for phase, count in sorted(counts.items()) if phase != Phase.READY)
    return f"{counts[Phase.READY]} of {total} nodes have it" + (f" ({others})" if others else "")


def _whereabouts(view: ModelView) -> str:
    groups = view.demand.groups
    return f"node group {', '.join(groups)}" if groups else "spec.storage.nodeSelector and nodeAffinity"


def _conflict_words(view: ModelView) -> str:
    other = view.conflict
    if other is None:
        return ""
    return (
        f"{other.kind} {other.name} is older and has the same model id {other.id!r} with "
        f"{difference(view.demand, other)}; "
        "rename this one, or delete the other"
    )


def _resolved_words(view: ModelView) -> tuple[str, str]:
    if view.demand.resolution is not None:
        return "Resolved", f"revision {view.demand.resolution.revision}"
    if view.demand.refused:
        return "SourceNotAllowed", view.demand.refused
    if view.trouble is not None:
        return view.trouble.reason, view.trouble.message
    return "Resolving", ""


def _serving(view: ModelView) -> str:
    """Return the revision for new pods: it moves on when every live target node has the new one.

    Where no target node has the old one any more, the first node that has the new one is enough.
    """
    resolution, serving = view.demand.resolution, view.demand.serving
    if resolution is None or serving in ("", resolution.revision):
        return resolution.revision if resolution else serving
    evicted = {n.name for n in view.nodes if n.status is not None and n.status.reason == EVICTED}
    live = [n for n in view.nodes if n.ready and n.agent_ready and n.name not in evicted]
    having = [n for n in live if n.status is not None and n.status.phase == Phase.READY]
    lost = not any(n.serving is not None and n.serving.phase in _HELD for n in view.nodes)
    return resolution.revision if having and (lost or len(having) == len(live)) else serving
