"""Decides what happens to pods that wait for a snapshot. No input or output, no clock.

    gated ─── a node has the files ───► gate removed ───► scheduled
    bound to a node without the files ─── Events with the progress ───► files complete ───► kubelet mounts them
                  └── larder.dev/on-missing: fail ───► Failed

A pod whose model or revision is gone waits forever; an Event on it and on its owner says so.
"""

from dataclasses import dataclass
from typing import TypeAlias

from controller.manager.actions import Requeue
from controller.waiting_pods.view import MissingFiles, WaitingPod, WaitingView
from shared.api.core import Pod
from shared.quantity import format_bytes

WAITING = "WaitingForModel"
DELAYED = "ModelDelayed"
HERE = "ModelOnNode"
REMOVED = "ModelRemoved"
REVISION_GONE = "ModelRevisionGone"

_PROGRESS_S = 60.0
_REPEAT_S = 3600.0
_NEXT_BATCH_S = 0.1
_REQUEUE_S = 5.0
_MAX_AT_ONCE = 50
_AGENT_LATE_S = 120.0  # a new node's agent starts sooner
_STEP_PERCENT = 10
_MAX_NOTIFIED = 5


@dataclass(frozen=True, slots=True)
class RemoveGate:
    """Let the scheduler place a pod."""

    pod: Pod


@dataclass(frozen=True, slots=True)
class FailPod:
    """End a pod, unless live reads show that it has started or the files are there."""

    pod: Pod
    message: str


@dataclass(frozen=True, slots=True)
class ReportOnPods:
    """Write an Event on pods, with `owners` also on their owners; another state in `state_key` is reported at once."""

    pods: tuple[Pod, ...]
    reason: str
    message: str
    state_key: str = ""
    warn: bool = False
    owners: bool = False


Action: TypeAlias = RemoveGate | FailPod | ReportOnPods | Requeue


def decide(view: WaitingView) -> list[Action]:
    """Return the next steps for the pods of one namespace that were given one snapshot."""
    gates, ends, rest = list[Action](), list[Action](), list[WaitingPod]()
    for waiting in view.pods:
        if waiting.recently_failed:
            rest.append(waiting)
        elif waiting.gated and (waiting.fits or not view.key.id):
            gates.append(RemoveGate(waiting.pod))
        elif waiting.missing is not None and waiting.fails:
            ends.append(FailPod(waiting.pod, _failed(view, waiting.missing)))
        else:
            rest.append(waiting)
    changes = gates if view.paused else [*gates, *ends]
    requeue = _requeue(view, rest, changes=len(changes), ends=len(ends))
    return [*changes[:_MAX_AT_ONCE], *_reports(view, rest), *requeue]


def _requeue(view: WaitingView, rest: list[WaitingPod], changes: int, ends: int) -> list[Action]:
    """Return when to reconcile the pods again if no event comes earlier; for most changes, one does."""
    if changes > _MAX_AT_ONCE:
        return [Requeue(_NEXT_BATCH_S)]
    if view.undecided:
        return [Requeue(_REQUEUE_S)]
    if changes or ends or any(w.missing is not None or w.recently_failed for w in rest):
        return [Requeue(_PROGRESS_S)]
    return [Requeue(_REPEAT_S)] if any(view.waits(w) for w in rest) else []


def _reports(view: WaitingView, rest: list[WaitingPod]) -> list[Action]:
    if not view.key.id:
        return []
    lost = [w for w in rest if w.missing is not None or not w.bound]
    if lost and not view.declared:
        return [ReportOnPods(_pods(lost), REMOVED, _removed(view), warn=True, owners=True)]
    if lost and not view.obtainable:
        return [ReportOnPods(_pods(lost), REVISION_GONE, _revision_gone(view), warn=True, owners=True)]
    return [*_gated(view, rest), *_progress(view, rest), *_here(view, rest)]


def _gated(view: WaitingView, rest: list[WaitingPod]) -> list[Action]:
    gated = [w for w in rest if w.gated]
    if not gated:
        return []
    message = (
        f"the pod waits behind its scheduling gate until a node that it may run on has {_title(view)}; `larder "
        "why pod/NAME` says how far the downloads are"
    )
    return [ReportOnPods(_pods(gated), WAITING, message)]


def _progress(view: WaitingView, rest: list[WaitingPod]) -> list[Action]:
    found = [(w.pod, w.missing) for w in rest if w.missing is not None]
    return [_progress_of(view, pod, missing) for pod, missing in found[:_MAX_NOTIFIED]]


def _progress_of(view: WaitingView, pod: Pod, missing: MissingFiles) -> ReportOnPods:
    delay = _delay(missing)
    if delay:
        facts = missing.phase, missing.reason, missing.node_ready, bool(missing.obstacle), _lacks_agent(missing)
        state_key = " ".join(map(str, facts))
        return ReportOnPods((pod,), DELAYED, f"{_title(view)} is not on node {delay}", state_key, warn=True)
    size = format_bytes(missing.total_bytes) if missing.total_bytes else "unknown size"
    how_far = f"{format_bytes(missing.done_bytes)} of {size}, {missing.percent} %"
    message = (
        f"node {missing.node} does not have {_title(view)} yet ({missing.phase}: {how_far}); the pod starts once the "
        "files are there"
    )
    return ReportOnPods((pod,), WAITING, message, f"{missing.phase} {missing.percent // _STEP_PERCENT}")


def _delay(missing: MissingFiles) -> str:
    """Return the node and what prevents it from getting the files, or an empty string."""
    if not missing.node_ready:
        return (
            f"{missing.node}, which is not Ready, so nothing is downloaded there; if the node does not come back, "
            "delete the pod"
        )
    if missing.obstacle:
        return f"{missing.node} and will not get there: {missing.obstacle}"
    if _lacks_agent(missing):
        return (
            f"{missing.node}, which has had no ready agent for {missing.agent_away_s / 60:.0f} minutes, so nothing is "
            f"downloaded there; `larder why node/{missing.node}` says why. If the node is to have no agent, delete the "
            "pod and keep its successor off the node"
        )
    return f"{missing.node}: {missing.phase}, {missing.reason}: {missing.message}" if missing.reason else ""


def _lacks_agent(missing: MissingFiles) -> bool:
    return missing.agent_away_s > _AGENT_LATE_S


def _here(view: WaitingView, rest: list[WaitingPod]) -> list[Action]:
    """Report that the files have arrived, on pods that were reported as waiting."""
    done = [w for w in rest if w.bound and w.missing is None and w.notified]
    return [ReportOnPods((w.pod,), HERE, f"{_title(view)} is on node {w.pod.spec.node_name}{_mount(w)}") for w in done]


def _mount(waiting: WaitingPod) -> str:
    """Return when the files are mounted: only a pod that was on the node before them waits for kubelet's next try."""
    return "; kubelet mounts it within two minutes" if waiting.placement == "preferred" else ""


def _failed(view: WaitingView, missing: MissingFiles) -> str:
    return (
        f"node {missing.node} does not have {_title(view)}, and the annotation larder.dev/on-missing is fail; the pod "
        "was ended before it started"
    )


def _removed(view: WaitingView) -> str:
    return f"model {view.key.id} was deleted, so no node gets its files; declare it again, or delete the pod"


def _revision_gone(view: WaitingView) -> str:
    now = f"new pods get {view.serving[:12]}" if view.serving else "new pods get another"
    return (
        f"no node has {_title(view)}, which the pod was admitted with, and none will get it: {now}; delete the pod, "
        "so that its successor gets that one"
    )


def _title(view: WaitingView) -> str:
    return f"model {view.key.id}@{view.key.revision[:12]}"


def _pods(waiting: list[WaitingPod]) -> tuple[Pod, ...]:
    return tuple(w.pod for w in waiting)
