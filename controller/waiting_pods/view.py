"""What a decision on pods that wait is based on."""

from dataclasses import dataclass

from controller.placement.pod_placement import Placement
from controller.waiting_pods.keys import WaitingKey
from shared.api.core import Pod


@dataclass(frozen=True, slots=True)
class MissingFiles:
    """A snapshot that is not complete on a pod's node.

    Args:
        node: Name of the node.
        node_ready: Whether the node exists and is Ready.
        phase: The agent's phase of the entry, or Pending if it has not reported one.
        reason: The agent's reason why it makes no progress.
        message: The agent's explanation of the reason.
        obstacle: Why the node's ModelNode does not list the entry; empty if it does, or is about to.
        agent_away_s: Seconds for which the node has had no ready agent; 0 if it has one.
        done_bytes: Bytes downloaded.
        total_bytes: Bytes to download; 0 if unknown.
    """

    node: str
    node_ready: bool = True
    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    obstacle: str = ""
    agent_away_s: float = 0.0
    done_bytes: int = 0
    total_bytes: int = 0

    @property
    def percent(self) -> int:
        """The percentage downloaded."""
        return min(99, 100 * self.done_bytes // self.total_bytes) if self.total_bytes > 0 else 0


@dataclass(frozen=True, slots=True)
class WaitingPod:
    """A pod that has not started.

    Args:
        pod: The pod.
        placement: How it is placed.
        gated: Whether it has Larder's scheduling gate.
        fits: Whether a node that it may run on has the files of all its models. Known for gated pods only.
        missing: What its node lacks; None if the files are there, or it has no node.
        fails: Whether it asks to be ended on a node without the files.
        notified: Whether an Event says that the files are missing.
        recently_failed: Whether a change of the pod failed recently.
    """

    pod: Pod
    placement: Placement
    gated: bool = False
    fits: bool = False
    missing: MissingFiles | None = None
    fails: bool = False
    notified: bool = False
    recently_failed: bool = False

    @property
    def bound(self) -> bool:
        """Whether it has a node."""
        return bool(self.pod.spec.node_name)


@dataclass(frozen=True, slots=True)
class WaitingView:
    """The pods of a namespace that wait for a snapshot, at one moment.

    Args:
        key: The namespace and the snapshot.
        pods: The pods, oldest first.
        declared: Whether an object that is not being deleted declares the model.
        serving: The revision that new pods get.
        obtainable: Whether a node has the snapshot, or will still get it.
        on_some_node: Whether a node has it.
        undecided: Whether there were too many gated pods to check all of them.
        paused: Whether pods of the key were ended just now, so that others are not ended yet.
    """

    key: WaitingKey
    pods: tuple[WaitingPod, ...] = ()
    declared: bool = True
    serving: str = ""
    obtainable: bool = True
    on_some_node: bool = False
    undecided: bool = False
    paused: bool = False

    def waits(self, waiting: WaitingPod) -> bool:
        """Return whether a pod waits for files, rather than for the scheduler or for kubelet."""
        return waiting.gated or waiting.missing is not None or not (waiting.bound or self.on_some_node)
