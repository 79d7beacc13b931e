"""Gathers the input for decisions about waiting pods; the only module in this folder that reads."""

import asyncio
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from controller.placement.demand import Demand
from controller.placement.pod_placement import (
    MODEL_GATE,
    ON_MISSING_ANNOTATION,
    PLACEMENT_ANNOTATION,
    Placement,
    promised_snapshots,
)
from controller.placement.selectors import matches_affinity, matches_labels
from controller.state.cluster_state import ClusterState
from controller.state.progress import ProgressTracker
from controller.waiting_pods.keys import WaitingKey
from controller.waiting_pods.view import MissingFiles, WaitingPod, WaitingView
from shared.api.core import Node, Pod
from shared.api.model_node import COMPLETE_PHASES, Phase
from shared.names import ready_label, snapshot_label

_MAX_MATCHED = 100
_MAX_COMPARISONS = 20_000  # of a pod with a node: 1.4 s with the longest affinities
_NODES_AT_ONCE = 50  # about 5 ms with the longest affinity that a Pod keeps


@dataclass(slots=True)
class WaitingPodsObserver:
    """Reads the caches; a decision that ends a pod is confirmed by live reads before it is applied."""

    cluster: ClusterState
    progress: ProgressTracker
    _next: dict[WaitingKey, int] = field(default_factory=dict, init=False)  # where the last search for nodes stopped

    async def view(
        self, key: WaitingKey, notified: Collection[str] = (), recently_failed: Collection[str] = ()
    ) -> WaitingView:
        """Return the pods of a key.

        Args:
            key: The namespace and the snapshot.
            notified: The uids of the pods on which an Event says that the files are missing.
            recently_failed: The uids of the pods for which a change failed recently.
        """
        pods = self._pods(key)
        demands = [d for d in self.cluster.models.same_id(key.id) if d.id == key.id and not d.deleting]
        with_files = self._nodes_with_files(key) if demands else []
        gated = [pod for pod in pods if _is_gated(pod) and pod.metadata.uid not in recently_failed]
        fits, undecided = await self._fitting(key, gated, with_files)
        return WaitingView(
            key=key,
            pods=tuple(
                replace(
                    self._waiting(key, pod, demands),
                    fits=pod.metadata.uid in fits,
                    notified=pod.metadata.uid in notified,
                    recently_failed=pod.metadata.uid in recently_failed,
                )
                for pod in pods
            ),
            declared=bool(demands),
            serving=next((d.serving for d in demands if d.serving), ""),
            obtainable=bool(with_files) or self._is_wanted(key, demands),
            on_some_node=bool(with_files),
            undecided=undecided,
        )

    def forget(self, key: WaitingKey) -> None:
        """Forget a key without pods."""
        self._next.pop(key, None)

    def _pods(self, key: WaitingKey) -> list[Pod]:
        known = map(self.cluster.model_pods.get, self.cluster.waiting_pods.pods_for(key.namespace, key.snapshot))
        return sorted((p for p in known if p is not None), key=lambda p: (p.metadata.creation_timestamp, p.key))

    def _nodes_with_files(self, key: WaitingKey) -> list[Node]:
        label = snapshot_label(*key.snapshot)
        return [node for node in self.cluster.nodes if node.metadata.labels.get(label) == "true"]

    def _is_wanted(self, key: WaitingKey, demands: Collection[Demand]) -> bool:
        """Return whether nodes still get a revision: it is serving or next to serve, or a node still lists it."""
        revisions = {r for d in demands for r in (d.serving, d.resolution.revision if d.resolution else "")}
        return key.revision in revisions or key.snapshot in self.cluster.listed

    def _waiting(self, key: WaitingKey, pod: Pod, demands: Collection[Demand]) -> WaitingPod:
        gated, annotations = _is_gated(pod), pod.metadata.annotations
        return WaitingPod(
            pod=pod,
            placement="gated" if gated else _placement(annotations.get(PLACEMENT_ANNOTATION, "")),
            gated=gated,
            missing=self._missing(key, pod.spec.node_name, demands) if pod.spec.node_name and key.id else None,
            fails=annotations.get(ON_MISSING_ANNOTATION) == "fail",
        )

    def _missing(self, key: WaitingKey, name: str, demands: Collection[Demand]) -> MissingFiles | None:
        node = self.cluster.node(name)
        if node is None:
            return MissingFiles(name, node_ready=False)
        status = self.cluster.statuses.of(node).get(key.snapshot)
        if has_files(node, key, status.phase if status else ""):
            return None
        done_bytes, total_bytes = self.progress.of(name, key.snapshot)
        return MissingFiles(
            name,
            node.ready,
            status.phase if status else Phase.PENDING,
            status.reason if status else "",
            status.message if status else "",
            self._obstacle(key, node, demands),
            self.cluster.liveness.away_s(name),
            done_bytes,
            total_bytes or self.cluster.listed.sizes_on(name).get(key.snapshot, 0),
        )

    def _obstacle(self, key: WaitingKey, node: Node, demands: Collection[Demand]) -> str:
        """Return why a node that does not list the snapshot will not get it, or an empty string."""
        name = node.metadata.name
        if key.snapshot in self.cluster.listed.sizes_on(name) or not demands:
            return ""
        if not any(self.cluster.is_target(d, node) for d in demands):
            return "the model does not select this node; compare its labels with the model's groups and selector"
        if reason := self.cluster.unplaced.reason(name, key.snapshot):
            return reason
        resolved = {d.resolution.revision for d in demands if d.resolution}
        if key.revision in resolved or self.cluster.may_restore(key.snapshot):
            return ""
        return "no other node gets this revision any more; delete the pod, so that its successor gets another"

    async def _fitting(self, key: WaitingKey, gated: list[Pod], with_files: list[Node]) -> tuple[set[str], bool]:
        """Return the uids of the pods for which a node has all models, and whether some were not checked.

        Pods of one workload have equal constraints; a run checks at most 100 different ones, fewer where many
        nodes have the files. The next run continues from there, and other work runs in between.
        """
        if not gated or not with_files:
            return set(), False
        most = max(1, min(_MAX_MATCHED, _MAX_COMPARISONS // len(with_files)))
        first = self._next.pop(key, 0) % len(gated)
        answers, fitting = dict[str, bool](), set[str]()
        for index in range(len(gated)):
            pod = gated[(first + index) % len(gated)]
            constraints = _constraints(pod)
            if constraints not in answers:
                if len(answers) == most:
                    self._next[key] = first + index
                    return fitting, True
                answers[constraints] = await _fits(pod, with_files)
            if answers[constraints]:
                fitting.add(pod.metadata.uid)
        return fitting, False


def has_files(node: Node, key: WaitingKey, phase: str) -> bool:
    """Return whether a snapshot is complete on a node, according to its agent's status or its label."""
    return phase in COMPLETE_PHASES or node.metadata.labels.get(snapshot_label(*key.snapshot)) == "true"


async def _fits(pod: Pod, nodes: list[Node]) -> bool:
    """Return whether the pod may run on one of the nodes, which must have the files of all its models."""
    wanted = pod.spec.node_selector | _labels_of_models(pod)
    for first in range(0, len(nodes), _NODES_AT_ONCE):
        if any(_matches(pod, wanted, node) for node in nodes[first : first + _NODES_AT_ONCE]):
            return True
        await asyncio.sleep(0)
    return False


def _matches(pod: Pod, wanted: Mapping[str, str], node: Node) -> bool:
    labels = node.metadata.labels
    return matches_labels(wanted, labels) and matches_affinity(
        pod.spec.affinity.node_affinity, node.metadata.name, labels
    )


def _labels_of_models(pod: Pod) -> dict[str, str]:
    snapshots = promised_snapshots(pod.metadata.namespace, pod.metadata.annotations)
    return {label: "true" for key in snapshots for label in (ready_label(key[0]), snapshot_label(*key))}


def _constraints(pod: Pod) -> str:
    """Return everything that determines where a pod may run; equal for pods of one workload."""
    return json.dumps([pod.spec.node_selector, pod.spec.affinity.node_affinity, sorted(_labels_of_models(pod))])


def _is_gated(pod: Pod) -> bool:
    return not pod.spec.node_name and any(gate.name == MODEL_GATE for gate in pod.spec.scheduling_gates)


def _placement(text: str) -> Placement:
    """Return the placement that admission recorded; anyone may have changed it since."""
    return "preferred" if text == "preferred" else "required"
