"""The rollout of a model: the phase of each node, and the revision pods get. No input or output, no clock."""

from collections import Counter
from dataclasses import dataclass

from msgspec.structs import replace

from controller.models.view import ModelView, TargetNode
from controller.state.progress import coarse_percent
from shared.api.meta import NodeState
from shared.api.model_node import EVICTED, EntryStatus, Phase

NOT_READY = "NotReady"  # the phase of a node that is not Ready itself
UNDER_WAY = (Phase.PENDING, Phase.WAITING, Phase.DOWNLOADING)
_HAS_FILES = (Phase.READY, Phase.REPAIRING, Phase.DOWNLOADING, Phase.DRAINING)
_MAX_REVISIONS = 8


@dataclass(frozen=True, slots=True)
class Rollout:
    """A model on its target nodes.

    Attributes:
        nodes: Every target node by name, with the phase of the resolved revision, else of the serving one.
        serving: The revision that new pods get; empty before the first.
        updating: Whether a revision other than the serving one is resolved, or is about to be.
        ready: The Ready nodes that have the serving revision.
        complete: Whether `ready` holds every target node that could have it: Ready, and the model not evicted there.
    """

    nodes: tuple[NodeState, ...]
    serving: str
    updating: bool
    ready: tuple[str, ...]
    complete: bool

    @property
    def failed(self) -> list[NodeState]:
        """The nodes that cannot get the revision that `nodes` describes."""
        return [n for n in self.nodes if n.phase == Phase.FAILED]

    def counts(self) -> str:
        """Return the number of nodes in each phase, as text."""
        phases = Counter(n.phase for n in self.nodes)
        ready = phases.pop(Phase.READY, 0)
        others = ", ".join(f"{count} {phase}" for phase, count in sorted(phases.items()))
        return f"{ready} of {len(self.nodes)} nodes have it" + (f" ({others})" if others else "")


def derive_rollout(view: ModelView) -> Rollout:
    """Derive the rollout from a view."""
    resolution, serving = view.demand.resolution, _serving_revision(view)
    updating = serving not in ("", resolution.revision if resolution else "")
    nodes = tuple(_node_state(n, view) for n in sorted(view.nodes, key=lambda n: n.name))
    if updating:
        ready = sorted(n.name for n in view.nodes if n.ready and _is_ready(n.serving))
    else:
        ready = [n.name for n in nodes if n.phase == Phase.READY]
    live = {n.name for n in nodes if n.phase not in (NOT_READY, EVICTED)}
    complete = bool(serving and ready) and live.issubset(ready)
    return Rollout(nodes, serving, updating, tuple(ready), complete)


def _serving_revision(view: ModelView) -> str:
    """Return the revision for new pods: it advances once every live target node has the new one.

    With r1 serving and r2 resolved, on the nodes a, b and c:

        a and b have r2, c downloads it                            r1
        a and b have r2, c is not Ready, or had to evict r2        r2
        a has r2, b and c download it, no node has r1 any more     r2
        there is no target node: the next one will have only r2    r2
    """
    resolution, serving = view.demand.resolution, view.demand.serving
    if resolution is None:
        return serving
    if not serving or not view.nodes:
        return resolution.revision
    live = [n for n in view.nodes if n.ready and n.agent_ready and not (n.status and n.status.reason == EVICTED)]
    updated = [n for n in live if _is_ready(n.status)]
    old_is_gone = not any(n.serving and n.serving.phase in _HAS_FILES for n in view.nodes)
    advances = updated and (old_is_gone or len(updated) == len(live))
    return resolution.revision if advances else serving


def _is_ready(status: EntryStatus | None) -> bool:
    return status is not None and status.phase == Phase.READY


def _node_state(node: TargetNode, view: ModelView) -> NodeState:
    resolution = view.demand.resolution
    status, revision = (node.status, resolution.revision) if resolution else (node.serving, view.demand.serving)
    state = NodeState(
        name=node.name, phase=NOT_READY, revision=revision, revisions=list(node.revisions[:_MAX_REVISIONS])
    )
    if not node.ready:
        return replace(state, message="the node is not Ready")
    if status is None and node.obstacle is not None:
        return replace(state, phase=Phase.FAILED, reason=node.obstacle.reason, message=node.obstacle.message)
    if status is None:
        message = "" if node.agent_ready else "no agent is ready on this node"
        return replace(state, phase=Phase.PENDING, message=message)
    percent = 100 if status.phase == Phase.READY else coarse_percent(node.done_bytes, node.total_bytes)
    phase = EVICTED if status.reason == EVICTED else status.phase
    if status.attempts and phase in UNDER_WAY:
        phase = Phase.FAILED  # otherwise each retry would flip the state until bytes arrive
    return replace(state, phase=phase, percent=percent, reason=status.reason, message=status.message)
