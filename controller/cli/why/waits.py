"""Explains why a pod that waits for its model has not started: a gate, or a node without the files.

No input or output, no clock.
"""

from collections.abc import Iterator

from controller.cli.why.findings import Finding, Severity, fact, some, stop, wait
from controller.cli.why.kinds import ObservedNode, ObservedPod
from controller.cli.why.nodes import agent_findings, entry_findings, statuses_of
from controller.cli.why.view import ClusterView
from controller.placement.pod_placement import MODEL_GATE, PLACEMENT_ANNOTATION
from controller.replica_claims.gate import CLAIMS_GATE
from shared.api.model_node import COMPLETE_PHASES, Phase
from shared.names import snapshot_label
from shared.quantity import format_bytes

Snapshots = list[tuple[str, str]]  # model ids and revisions


def may_wait_on_node(pod: ObservedPod) -> bool:
    """Return whether a pod has the placement `preferred`, so that it does not require the labels of its models."""
    return pod.metadata.annotations.get(PLACEMENT_ANNOTATION) == "preferred"


def gate_findings(pod: ObservedPod) -> Iterator[Finding]:
    """Yield the scheduling gates that keep a pod from the scheduler."""
    for gate in pod.spec.scheduling_gates:
        if gate.name == MODEL_GATE:
            message = "Larder removes the scheduling gate once a node that the pod may run on has the model"
            yield wait("gate", "Gated", message)
        elif gate.name == CLAIMS_GATE:
            message = f"Larder removes the scheduling gate {CLAIMS_GATE} once the claims of the pod's templates exist"
            yield wait("gate", "Gated", message)
        else:
            yield stop("gate", "OtherGate", f"the scheduling gate {gate.name} is not Larder's", "ask who added it")


def preferred_findings(snapshots: Snapshots, cluster: ClusterView) -> Iterator[Finding]:
    """Yield which nodes have the files that a pod prefers, and whether any node is meant for its models."""
    for identity, revision in snapshots:
        label = snapshot_label(identity, revision)
        having = [n.metadata.name for n in cluster.nodes if n.metadata.labels.get(label) == "true"]
        message = f"nodes with the files: {some(having) or 'none'}; on any other node, the pod waits for them"
        yield fact(identity, "Preferred", message)
        meant = [n for n in cluster.nodes for m in cluster.of_id(identity) if cluster.is_target(m.demand, n)]
        if not meant and cluster.of_id(identity):
            yield stop(
                identity, "NoNodes", "no node in the cluster is currently a target for it",
                "an autoscaler can add one; otherwise label a node, or change the selector or the group",
            )  # fmt: skip


def on_node_findings(pod: ObservedPod, snapshots: Snapshots, cluster: ClusterView) -> Iterator[Finding]:
    """Yield the progress of the models on the node of a pod that has not started."""
    node = cluster.node(pod.spec.node_name)
    found = cluster.model_nodes.get(pod.spec.node_name)
    if node is None or found is None:
        return
    entries, statuses = {e.key: e for e in found.spec.entries}, statuses_of(found, node)
    if node.status.ready and not all(key in statuses and statuses[key].phase in COMPLETE_PHASES for key in snapshots):
        yield from (f for f in agent_findings(node, cluster) if f.severity is Severity.STOP)
    for key in snapshots:
        status, entry = statuses.get(key), entries.get(key)
        about = f"{key[0]} on node/{node.metadata.name}"
        if status is not None and status.phase in COMPLETE_PHASES:
            mount = "; kubelet mounts them within two minutes" if may_wait_on_node(pod) else ""
            yield fact(about, "OnNode", f"the files are there{mount}")
        elif entry is None:
            yield _not_listed(about, key, node, cluster)
        else:
            yield from entry_findings(entry, status, node, cluster)
            if status is not None and status.phase == Phase.DOWNLOADING:
                yield wait(about, "Progress", _progress(key, entry.size, node, cluster))


def _not_listed(about: str, key: tuple[str, str], node: ObservedNode, cluster: ClusterView) -> Finding:
    models = cluster.of_id(key[0])
    if models and not any(cluster.is_target(m.demand, node) for m in models):
        return stop(
            about, "NotListed", "the model does not select the pod's node, so the pod cannot start",
            "compare the node's labels with the model's groups and selector, or delete the pod and keep its successor "
            "off the node",
        )  # fmt: skip
    return stop(
        about, "NotListed", f"the pod's node will never get revision {key[1]}, so the pod cannot start",
        "delete the pod, so that its successor gets the current revision",
    )  # fmt: skip


def _progress(key: tuple[str, str], size_bytes: int, node: ObservedNode, cluster: ClusterView) -> str:
    states = (m.node_states.get(node.metadata.name) for m in cluster.of_id(key[0]))
    percent = next((s.percent for s in states if s is not None and s.revision == key[1]), 0)
    return f"about {percent} % of {format_bytes(size_bytes)}; the pod starts once the files are complete"
