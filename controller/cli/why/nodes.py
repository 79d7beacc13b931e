"""Explains why a node lacks models that it should have. No input or output, no clock."""

from collections.abc import Iterator

from controller.cli.why.findings import Diagnosis, Finding, fact, not_found, ordered, some, stop, wait
from controller.cli.why.kinds import ObservedNode
from controller.cli.why.remedies import remedy
from controller.cli.why.view import ClusterView
from controller.models.kstatus import TRANSIENT
from controller.placement.groups import NodeLimits, limits_of
from shared.api.meta import condition_of
from shared.api.model_node import (
    COMPLETE_PHASES,
    DEVICES_ADVERTISED,
    EVICTED,
    LABELS_REFUSED,
    PROTOCOL,
    Entry,
    EntryState,
    EntryStatus,
    ModelNode,
    Phase,
)
from shared.names import READY_PREFIX, ready_label, snapshot_label
from shared.quantity import format_bytes


def why_node(name: str, cluster: ClusterView) -> Diagnosis:
    """Return the diagnosis of a node."""
    node = cluster.node(name)
    title = f"node/{name}"
    if node is None:
        return not_found(title, "there is no such node", "`kubectl get nodes` lists them")
    findings = [
        *leader_findings(cluster),
        *agent_findings(node, cluster),
        *_space(node, cluster),
        *_groups(node, cluster),
    ]
    found = cluster.model_nodes.get(name)
    if found is not None:
        statuses = statuses_of(found, node)
        for entry in found.spec.entries:
            findings += entry_findings(entry, statuses.get(entry.key), node, cluster)
        findings += _devices(found, node)
        findings += _unnamed(found, statuses, node)
        findings += _labels(node, statuses)
    return Diagnosis(title, ordered(findings))


def leader_findings(cluster: ClusterView) -> Iterator[Finding]:
    """Yield whether there is a leader: without one nothing is placed, granted or removed."""
    if cluster.leader is None:
        return
    if not cluster.leader.holder or cluster.leader.expired:
        last = f"{cluster.leader.holder} has not renewed it" if cluster.leader.holder else "no replica holds it"
        yield stop(
            "controller", "NoLeader", f"Lease larder-controller is free ({last}): nothing is placed or removed",
            f"see `kubectl -n {cluster.release_namespace} get pods` and their logs",
        )  # fmt: skip
    else:
        yield fact("controller", "Leading", f"{cluster.leader.holder} is the leader")


def agent_findings(node: ObservedNode, cluster: ClusterView) -> Iterator[Finding]:
    """Yield problems of the node itself, its agent, and the connection between controller and agent."""
    name, about = node.metadata.name, f"node/{node.metadata.name}"
    if not node.status.ready:
        yield stop(about, "NotReady", "the node is not Ready, so nothing is downloaded there", "check its kubelet")
    yield from _agent(node, cluster)
    found = cluster.model_nodes.get(name)
    if found is None:
        yield wait(
            about,
            "NoModelNode",
            "the controller has not created its ModelNode",
            "check that a controller replica is the leader",
        )
    elif not found.may_belong_to(node.metadata.uid):
        yield wait(about, "OtherNode", "its ModelNode belongs to an earlier node of this name and will be replaced")
    elif found.status.node_uid not in ("", node.metadata.uid):
        yield wait(about, "OtherNode", "its status belongs to an earlier node of this name; the agent will replace it")
    elif not found.status.node_uid:
        yield wait(about, "NeverReported", "its agent has never reported", "check the agent's log")
    elif found.status.observed_generation < found.metadata.generation:
        yield wait(
            about, "Behind",
            f"the agent has acted on generation {found.status.observed_generation} of {found.metadata.generation}",
            "if this persists, check the agent's log",
        )  # fmt: skip
    if found is not None and 0 < found.status.protocol < PROTOCOL:
        message = f"the agent speaks protocol {found.status.protocol}, which is older than the current {PROTOCOL}"
        yield stop(about, "OldAgent", message, "upgrade the agents")


def _agent(node: ObservedNode, cluster: ClusterView) -> Iterator[Finding]:
    name, about = node.metadata.name, f"node/{node.metadata.name}"
    pods = cluster.agents.get(name, ())
    if cluster.agent_ready(name):
        yield fact(about, "AgentReady", some(p.metadata.name for p in pods))
    elif not pods:
        taints = [f"{t.key}:{t.effect}" for t in node.spec.taints if t.effect in ("NoSchedule", "NoExecute")]
        hint = f" (node taints: {some(taints)})" if taints else ""
        yield stop(
            about, "NoAgent", f"the node has no pod of DaemonSet larder-agent{hint}",
            "compare the node with agent.nodeSelector, agent.affinity and agent.tolerations, and check the DaemonSet's "
            "events; if the node should run no agent, leave it out of the selectors of models and groups",
        )  # fmt: skip
    else:
        pod = pods[0]
        text = pod.status.message or next((c.message for c in pod.status.conditions if c.message), "")
        yield stop(
            about, "AgentNotReady", f"pod {pod.metadata.name} is {pod.status.phase or 'Pending'}, not Ready: {text}",
            f"see `kubectl -n {pod.metadata.namespace} logs {pod.metadata.name}`",
        )  # fmt: skip


def _space(node: ObservedNode, cluster: ClusterView) -> Iterator[Finding]:
    found = cluster.model_nodes.get(node.metadata.name)
    if found is None or found.status.node_uid != node.metadata.uid:
        return
    status, about = found.status, f"node/{node.metadata.name}"
    limit = format_bytes(found.spec.storage_limit) if found.spec.storage_limit else "none"
    text = (
        f"limit {limit}, used {format_bytes(status.used)}, reserved {format_bytes(status.reserved)}, "
        f"disk free {format_bytes(status.disk_free)}"
    )
    if found.spec.storage_limit and status.used > found.spec.storage_limit:
        yield stop(about, "OverLimit", f"the store exceeds its limit: {text}", "raise storageLimit or remove models")
    else:
        yield fact(about, "Space", text)


def _groups(node: ObservedNode, cluster: ClusterView) -> Iterator[Finding]:
    groups, about = cluster.groups_of(node), f"node/{node.metadata.name}"
    names = [g.metadata.name for g in groups]
    if not groups:
        yield fact(about, "NoGroup", "it is in no node group, so the default limits apply")
        return
    limits = limits_of(groups, NodeLimits(0, 0))
    also = "; the smallest limit of its groups applies" if len(groups) > 1 else ""
    yield fact(about, "Groups", f"{some(names)}; limit {format_bytes(limits.storage_bytes)}{also}")


def statuses_of(found: ModelNode, node: ObservedNode) -> dict[tuple[str, str], EntryStatus]:
    """Return the agent's statuses, unless they belong to another node of this name."""
    return {s.key: s for s in found.status.entries} if found.status.node_uid == node.metadata.uid else {}


def entry_findings(
    entry: Entry, status: EntryStatus | None, node: ObservedNode, cluster: ClusterView
) -> Iterator[Finding]:
    """Yield the state of one model on a node, and what it is waiting for."""
    about = f"{entry.id} on node/{node.metadata.name}"
    phase = status.phase if status else Phase.PENDING
    reason, message = (status.reason, status.message) if status else ("", "")
    if entry.evicted_for:
        text = message or f"evicted to make room for {entry.evicted_for} ({entry.state})"
        yield stop(about, EVICTED, text, remedy(EVICTED))
    elif entry.state != EntryState.PRESENT:
        how_far = f": {message}" if message else ""
        text = f"revision {entry.revision} is being removed ({entry.state}){how_far}"
        yield wait(about, entry.state, f"{text}; the files are removed once no pod on the node uses them")
    elif reason:
        retried = phase == Phase.DOWNLOADING and reason != LABELS_REFUSED
        passes = retried or (phase != Phase.FAILED and reason in TRANSIENT)
        to_finding = wait if passes else stop
        yield to_finding(about, reason, f"{phase}: {message}", remedy(reason))
    elif phase == Phase.READY:
        yield fact(about, "Ready", f"revision {entry.revision}")
    elif phase == Phase.DOWNLOADING:
        yield wait(about, "Downloading", f"{format_bytes(entry.size)} in total; `larder status` shows the progress")
    elif phase == Phase.WAITING:
        yield _waiting(about, entry, node, cluster)
    else:
        text = "the agent has not reserved space for it yet" if status else "the agent has not started on it yet"
        yield wait(about, phase, text)


def _waiting(about: str, entry: Entry, node: ObservedNode, cluster: ClusterView) -> Finding:
    if entry.granted:
        return wait(about, "NoSlot", "other downloads on this node come first (at most agent.downloads at a time)")
    limited = [g for g in cluster.groups_of(node) if g.spec.max_concurrent_nodes]
    text = "; ".join(
        f"group {g.metadata.name} lets {g.spec.max_concurrent_nodes} nodes download at a time; now downloading: "
        f"{some(holders_of(g.metadata.name, cluster)) or 'none'}"
        for g in limited
    )
    advice = "raise maxConcurrentNodes, or wait: a node without progress loses its grant after 10 minutes"
    return wait(
        about, "WaitingForGrant", text or "space is reserved; the controller has not granted the download yet", advice
    )


def holders_of(group: str, cluster: ClusterView) -> list[str]:
    """Return the nodes of a group that may download now, according to their ModelNodes."""
    members = (n for n in cluster.nodes if any(g.metadata.name == group for g in cluster.groups_of(n)))
    return sorted(n.metadata.name for n in members if _holds(n, cluster.model_nodes.get(n.metadata.name)))


def _holds(node: ObservedNode, found: ModelNode | None) -> bool:
    if found is None or found.spec.node_uid != node.metadata.uid:
        return False
    statuses = statuses_of(found, node)
    phases = {key: s.phase for key, s in statuses.items()}
    return any(
        e.granted and e.state == EntryState.PRESENT and phases.get(e.key) not in COMPLETE_PHASES
        for e in found.spec.entries
    )


def _devices(found: ModelNode, node: ObservedNode) -> Iterator[Finding]:
    """Yield whether the devices of the node's plugins are advertised; nothing if the node runs no plugins."""
    condition = condition_of(found.status.conditions, DEVICES_ADVERTISED)
    if condition is None or found.status.node_uid != node.metadata.uid:
        return
    about, message = f"node/{node.metadata.name}", f"{condition.reason}: {condition.message}"
    if condition.status == "True":
        yield fact(about, DEVICES_ADVERTISED, message)
    elif condition.status == "False":
        advice = "check the agent's log; docs/troubleshooting.md lists the reasons"
        yield stop(about, f"Not{DEVICES_ADVERTISED}", message, advice)
    else:
        yield wait(about, f"Not{DEVICES_ADVERTISED}", message)


def _unnamed(found: ModelNode, statuses: dict[tuple[str, str], EntryStatus], node: ObservedNode) -> Iterator[Finding]:
    named = {e.key for e in found.spec.entries}
    unknown = [s for key, s in statuses.items() if key not in named and s.phase == Phase.UNKNOWN]
    if unknown:
        text = f"files that no entry names: {some(f'{s.id}@{s.revision[:12]}' for s in unknown)}"
        yield wait(
            f"node/{node.metadata.name}", "UnknownFiles", f"{text}; the controller will decide whether to keep them"
        )


def _labels(node: ObservedNode, statuses: dict[tuple[str, str], EntryStatus]) -> Iterator[Finding]:
    ready = [s for s in statuses.values() if s.phase == Phase.READY]
    labels, about = node.metadata.labels, f"node/{node.metadata.name}"
    missing = [s.id for s in ready if not {ready_label(s.id), snapshot_label(*s.key)} <= labels.keys()]
    if missing:
        text = f"the labels of {some(missing)} are missing although the files are complete"
        yield stop(about, "MissingLabels", text, "the agent restores them within a minute; if not, check its log")
    kept = {
        ready_label(s.id) for s in statuses.values() if s.phase in (*COMPLETE_PHASES, Phase.UNKNOWN, Phase.DOWNLOADING)
    }
    stray = [key for key in labels if key.startswith(READY_PREFIX) and key not in kept]
    if stray:
        advice = "check that the agent runs, because it removes them; on a node without an agent, remove them yourself"
        yield stop(about, "StrayLabels", f"labels without files: {some(stray)}", advice)
