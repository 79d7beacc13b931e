"""What the user is told of a model: counts, a phase a node, one reason."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from controller.models.view import ModelView, TargetNode
from controller.progress import coarse_percent
from shared.api.meta import NodeState
from shared.api.model_node import Phase

MAX_LISTED = 100
_MAX_MESSAGE = 1024

Overall = Literal["Pending", "Downloading", "Ready", "Failed", "Deleting"]


@dataclass(frozen=True, slots=True)
class Report:
    """The content of a status, in no kind's own words yet.

    `complete`: every target node that is itself Ready has the model; `resolved`: the source's answer is known.
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

    @property
    def total(self) -> int:
        """The number of target nodes, those that are not Ready included."""
        return len(self.nodes)


def report(view: ModelView) -> Report:
    """Return what to tell of a model."""
    nodes = tuple(_node_state(n, view) for n in sorted(view.nodes, key=lambda n: n.name))
    ready = tuple(n.name for n in nodes if n.phase == Phase.READY)
    failed = tuple(n.name for n in nodes if n.phase == Phase.FAILED)
    live = [n for n in nodes if n.phase != "NotReady"]
    complete = bool(live) and len(ready) == len(live) and view.demand.resolution is not None
    overall, reason, message = _overall(view, nodes, complete=complete)
    resolved_reason, resolved_message = _resolved_words(view)
    return Report(
        overall=overall,
        complete=complete,
        resolved=view.demand.resolution is not None,
        reason=reason,
        message=message[:_MAX_MESSAGE],
        serving=_serving(view),
        nodes=nodes,
        ready=ready,
        failed=failed,
        resolved_reason=resolved_reason,
        resolved_message=resolved_message[:_MAX_MESSAGE],
    )


def _node_state(node: TargetNode, view: ModelView) -> NodeState:
    revision = view.demand.resolution.revision if view.demand.resolution else ""
    if not node.ready:
        return NodeState(name=node.name, phase="NotReady", message="the node is not Ready", revision=revision)
    if node.status is None:
        why = "" if node.agent_ready else "no agent is ready on this node"
        return NodeState(name=node.name, phase=Phase.PENDING, message=why, revision=revision)
    percent = 100 if node.status.phase == Phase.READY else coarse_percent(node.done_bytes, node.total_bytes)
    return NodeState(
        name=node.name,
        phase=node.status.phase,
        percent=percent,
        reason=node.status.reason,
        message=node.status.message,
        revision=revision,
    )


def _overall(view: ModelView, nodes: tuple[NodeState, ...], *, complete: bool) -> tuple[Overall, str, str]:
    demand = view.demand
    if view.deleted_at is not None:
        return "Deleting", "Deleting", f"waiting for {_some(view.remaining)} to remove the files"
    if demand.invalid:
        return "Failed", "InvalidURI", demand.invalid
    if demand.refused:
        return "Failed", "SourceNotAllowed", demand.refused
    if demand.disabled:
        return "Pending", "Disabled", "spec.disabled is true: nothing is downloaded; set it to false to go on"
    if demand.on_claim:
        return "Pending", "OnClaim", "the model is on a claim: no node downloads it; pods mount the claim"
    if view.conflict is not None:
        return "Failed", "NameConflict", _conflict_words(view)
    if demand.resolution is None:
        return _unresolved(view)
    if not nodes:
        return "Pending", "NoNodes", f"no node matches {_whereabouts(view)}; label a node, or change the selector"
    if complete:
        return "Ready", "Stocked", _counts(nodes)
    return _incomplete(nodes)


def _unresolved(view: ModelView) -> tuple[Overall, str, str]:
    trouble = view.trouble
    if trouble is None:
        return "Pending", "Resolving", "asking the source for its list of files"
    return ("Pending" if trouble.retryable else "Failed"), trouble.reason, trouble.message


def _incomplete(nodes: tuple[NodeState, ...]) -> tuple[Overall, str, str]:
    failed = [n for n in nodes if n.phase == Phase.FAILED]
    if failed:
        busy = any(n.phase in (Phase.DOWNLOADING, Phase.WAITING, Phase.PENDING) for n in nodes)
        words = f"{_counts(nodes)}; {_some([n.name for n in failed])}: {failed[0].reason}: {failed[0].message}"
        return ("Downloading" if busy else "Failed"), failed[0].reason or "Failed", words
    if all(n.phase == "NotReady" for n in nodes):
        return "Pending", "NodesNotReady", _counts(nodes)
    return "Downloading", "Downloading", _counts(nodes)


def _counts(nodes: Iterable[NodeState]) -> str:
    counts = Counter(n.phase for n in nodes)
    total = counts.total()
    others = ", ".join(f"{count} {phase}" for phase, count in sorted(counts.items()) if phase != Phase.READY)
    return f"{counts[Phase.READY]} of {total} nodes have it" + (f" ({others})" if others else "")


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    return ", ".join(listed[:3]) + (f" and {len(listed) - 3} more" if len(listed) > 3 else "")  # noqa: PLR2004 - as shown


def _whereabouts(view: ModelView) -> str:
    groups = view.demand.groups
    return f"node group {', '.join(groups)}" if groups else "spec.storage.nodeSelector and nodeAffinity"


def _conflict_words(view: ModelView) -> str:
    other = view.conflict
    if other is None:
        return ""
    return (
        f"{other.kind} {other.name} is older and has the same model id {other.id!r} with another source ({other.uri}); "
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
    """Return the revision for new pods: it moves on when every live target node has the new one."""
    resolution, serving = view.demand.resolution, view.demand.serving
    if resolution is None or serving in ("", resolution.revision):
        return resolution.revision if resolution else serving
    live = [n for n in view.nodes if n.ready and n.agent_ready]
    moved = bool(live) and all(n.status is not None and n.status.phase == Phase.READY for n in live)
    return resolution.revision if moved else serving
