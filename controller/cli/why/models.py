"""Explains why a model is not where it should be. No input or output, no clock."""

from collections.abc import Iterator

from controller.claims.contention import CLAIM_IN_USE
from controller.claims.result import READING, WAITS
from controller.cli.why.findings import Diagnosis, Finding, Severity, fact, ordered, some, stop, wait
from controller.cli.why.kinds import ObservedNode
from controller.cli.why.nodes import agent_findings, entry_findings, leader_findings, statuses_of
from controller.cli.why.remedies import remedy
from controller.cli.why.revisions import removal_findings, revision_findings
from controller.cli.why.view import ClusterView, DeclaredModel
from controller.manager.conditions import METADATA
from controller.metadata.fill import metadata_of
from controller.metadata.status import line_of
from controller.models.kstatus import TRANSIENT
from controller.placement.claim_place import place_of
from controller.placement.name_conflicts import conflict_of, difference
from controller.state.kinds.ownership import MANAGED_ANNOTATION
from shared.api.base_model import BaseModelStatus
from shared.api.cluster_model_cache import ClusterModelCacheStatus
from shared.api.core import SECRET_LABEL
from shared.api.meta import condition_of
from shared.api.model_node import Phase
from shared.quantity import format_bytes
from shared.selection.left_out import left_out_message

_OUTSIDE = ("NameConflict", "InvalidURI", "Disabled", "NoClaim")  # reported separately, or by the claim
# Where the remedy for a source would be wrong: a Job reads the files on the claim
_CLAIM_REMEDIES = {
    "SourceNotFound": "replace the dangling link with the file itself",
    "Unreachable": "check the claim's volume",
    "UnsafePath": "replace the symbolic link with what it points to, or correct the sub-path of storageUri",
}
_OF_NODES = ("nodes", "modelnodes", "agents")
_WEIGHTS: dict[str, Severity] = {Phase.READY: Severity.FACT, Phase.FAILED: Severity.STOP}
_CHECK_LEADER = "check that a controller replica is the leader"
_MAX_NODES = 8  # shown individually; others are only counted


def why_model(found: DeclaredModel, cluster: ClusterView) -> Diagnosis:
    """Return the diagnosis of a model."""
    if not found.managed:
        return Diagnosis(title_of(found), (_not_managed(found),))
    findings = [*leader_findings(cluster), *_object_findings(found, cluster), *removal_findings(found)]
    if found.demand.placeable:
        findings += [*_source(found), *revision_findings(found, cluster), *_credentials(found, cluster)]
        findings += _targets(found, cluster)
    return Diagnosis(title_of(found), ordered(findings), failed=has_failed(found))


def _not_managed(found: DeclaredModel) -> Finding:
    message = "another product owns this kind, and the object does not opt in to Larder, so Larder ignores it"
    advice = (
        f"see that product's documentation, or annotate the object {MANAGED_ANNOTATION}=true to let Larder manage it"
    )
    return stop(title_of(found), "NotManaged", message, advice)


def title_of(found: DeclaredModel) -> str:
    """Return kind and name."""
    demand = found.demand
    return f"{demand.kind} {demand.namespace}/{demand.name}" if demand.namespace else f"{demand.kind} {demand.name}"


def has_failed(found: DeclaredModel) -> bool:
    """Return whether the object itself reports a failure."""
    match found.status:
        case BaseModelStatus(state="Failed") | ClusterModelCacheStatus(storage_status="Failed"):
            return found.managed
        case _:
            return False


def summary_of(found: DeclaredModel) -> str:
    """Return the controller's view of a model, in one line."""
    ready = condition_of(found.status.conditions, "Ready")
    return f"{ready.reason}: {ready.message}" if ready else "the controller has not reported on it yet"


def _deletion(found: DeclaredModel, about: str, holders: list[str]) -> Finding:
    ready = condition_of(found.status.conditions, "Ready")
    if ready is not None and ready.reason in ("InUse", "UsersUnknown"):
        return wait(about, ready.reason, ready.message)
    message = f"nodes that still list it: {some(sorted(holders)) or 'none'}"
    return wait(about, "Deleting", message, "none needed: Larder removes its finalizer after at most 10 minutes")


def _object_findings(found: DeclaredModel, cluster: ClusterView) -> Iterator[Finding]:
    demand, about = found.demand, title_of(found)
    if demand.foreign:
        yield fact(about, "Foreign", "Larder does not manage vendor:// models")
    if demand.deleting:
        holders = [name for name, mn in cluster.model_nodes.items() if demand.uid in {c.uid for e in mn.spec.entries
                                                                                  for c in e.claims}]  # fmt: skip
        yield _deletion(found, about, holders)
    if demand.invalid:
        yield stop(about, "InvalidURI", demand.invalid, remedy("InvalidURI"))
    ready = condition_of(found.status.conditions, "Ready")
    if ready is not None and ready.reason == "SourceNotAllowed" and demand.resolution is not None:
        yield stop(about, "SourceNotAllowed", ready.message, remedy("SourceNotAllowed"))
    if demand.disabled:
        yield stop(about, "Disabled", "spec.disabled is true: nothing is downloaded", remedy("Disabled"))
    if demand.on_claim:
        yield from _on_claim(found)
    yield from _metadata_findings(found)
    other = conflict_of(demand, [m.demand for m in cluster.of_id(demand.id) if m.managed])
    if other is not None:
        message = f"{other.kind} {other.name} is older and has the id {demand.id} with {difference(demand, other)}"
        yield stop(about, "NameConflict", message, remedy("NameConflict"))
    if found.status.observed_generation < found.meta.generation and not demand.foreign:
        yield wait(about, "NotObserved", "the controller has not observed its latest spec", _CHECK_LEADER)


def _on_claim(found: DeclaredModel) -> Iterator[Finding]:
    """Yield whether pods can mount the claim, and what is known about its files."""
    place = place_of(found.demand.uri, found.demand.namespace)
    abouts = {"Ready": f"pvc/{place.claim} in namespace {place.namespace}", METADATA: "metadata"}
    yield fact(
        title_of(found), "OnClaim", "the model is on a PersistentVolumeClaim, which pods mount; no node downloads it"
    )
    for kind, about in abouts.items():
        condition = condition_of(found.status.conditions, kind)
        if condition is None or condition.reason in _OUTSIDE:
            continue
        if condition.status == "True" and condition.reason == CLAIM_IN_USE:
            yield stop(
                about, condition.reason, condition.message, "stop that pod, or run all pods of the model on one node"
            )
        elif condition.status == "True" or condition.reason == "Skipped":
            yield fact(about, condition.reason, condition.message)
        else:
            to_finding = wait if condition.reason in (READING, WAITS) else stop
            yield to_finding(about, condition.reason, condition.message, remedy(condition.reason, _CLAIM_REMEDIES))


def _metadata_findings(found: DeclaredModel) -> Iterator[Finding]:
    """Yield the model's metadata; for one on nodes, also why it is unknown, which blocks no pod."""
    kept = found.status.metadata
    metadata = metadata_of(kept.values) if kept is not None else None
    if metadata is not None:
        yield fact("metadata", "Model", line_of(metadata))
    condition = condition_of(found.status.conditions, METADATA)
    if condition is not None and condition.status != "True" and not found.demand.on_claim:
        yield fact("metadata", condition.reason, condition.message)


def _source(found: DeclaredModel) -> Iterator[Finding]:
    demand, resolved = found.demand, condition_of(found.status.conditions, "Resolved")
    if demand.resolution is not None:
        size = format_bytes(demand.resolution.size_bytes)
        yield fact("source", "Resolved", f"{demand.uri} is at revision {demand.resolution.revision}, {size}")
        if found.status.left_out is not None:
            yield fact("source", "LeftOut", left_out_message(found.status.left_out))
    elif resolved is None or resolved.reason == "Resolving":
        yield wait("source", "Resolving", f"listing the files of {demand.uri}")
    else:
        to_finding = wait if resolved.reason in TRANSIENT else stop
        yield to_finding("source", resolved.reason, resolved.message, remedy(resolved.reason))


def _credentials(found: DeclaredModel, cluster: ClusterView) -> Iterator[Finding]:
    demand = found.demand
    reasons = {c.reason for c in found.status.conditions} | {n.reason for n in found.node_states.values()}
    where = f"namespace {demand.namespace or cluster.release_namespace}"
    if demand.secret:
        need = f"Secret {demand.secret} in {where}; it must be labelled {SECRET_LABEL}=true"
        yield fact("credentials", "Secret", f"{need} (not read by this command)")
    elif "AuthDenied" in reasons:
        field = "spec.credentialsSecret" if demand.kind == "ClusterModelCache" else "spec.storage.key"
        yield stop(
            "credentials", "NoSecret", "the source requires credentials, and the model names no Secret",
            f"create a Secret in {where}, label it {SECRET_LABEL}=true, and name it in {field}",
        )  # fmt: skip


def _targets(found: DeclaredModel, cluster: ClusterView) -> Iterator[Finding]:
    demand = found.demand
    known = {g.metadata.name for g in cluster.groups}
    for name in demand.groups:
        if name not in known and "modelcachenodegroups" not in cluster.hidden:
            message = f"there is no ModelCacheNodeGroup {name}; existing groups: {some(sorted(known)) or 'none'}"
            yield stop("nodes", "UnknownGroup", message, "create the group")
    if not cluster.hidden.keys().isdisjoint(_OF_NODES):
        yield from _reported_nodes(found)
        return
    targets = [n for n in cluster.nodes if cluster.is_target(demand, n)]
    if not targets:
        yield stop("nodes", "NoNodes", _no_match_message(found, cluster), remedy("NoNodes"))
    targets.sort(key=lambda n: (_phase(found, n, cluster) == Phase.READY, n.metadata.name))
    for node in targets[:_MAX_NODES]:
        yield from _on_node(found, node, cluster)
    if len(targets) > _MAX_NODES:
        left = targets[_MAX_NODES:]
        ready = sum(_phase(found, n, cluster) == Phase.READY for n in left)
        message = f"{len(left)} more nodes, {ready} of them Ready; `larder why node/NAME` explains each"
        yield fact("nodes", "More", message)


def _reported_nodes(found: DeclaredModel) -> Iterator[Finding]:
    """Yield the nodes as listed in the model's status, for a user who may not read nodes."""
    yield fact("nodes", "NotShown", "you may not list nodes and agents, so this is what the model's status reports")
    states = sorted(found.node_states.values(), key=lambda state: (state.phase == Phase.READY, state.name))
    for state in states[:_MAX_NODES]:
        message = ": ".join(filter(None, (state.phase if state.reason else "", state.message))) or state.phase
        weight = _WEIGHTS.get(state.phase, Severity.WAIT)
        yield Finding(weight, f"node/{state.name}", state.reason or state.phase, message, remedy(state.reason))


def _phase(found: DeclaredModel, node: ObservedNode, cluster: ClusterView) -> str:
    """Return the agent's phase of the resolved revision; empty without a status from a live agent."""
    resolution, model_node = found.demand.resolution, cluster.model_nodes.get(node.metadata.name)
    if resolution is None or model_node is None or not node.status.ready or not cluster.agent_ready(node.metadata.name):
        return ""
    status = statuses_of(model_node, node).get((found.demand.id, resolution.revision))
    return status.phase if status else ""


def _no_match_message(found: DeclaredModel, cluster: ClusterView) -> str:
    """Return how many nodes have each required label."""
    demand = found.demand
    groups = [g for g in cluster.groups if g.metadata.name in demand.groups]
    wanted = {**demand.node_selector, **{k: v for g in groups for k, v in g.spec.node_selector.items()}}
    counts = [
        f"{key}={value} is on {sum(n.metadata.labels.get(key) == value for n in cluster.nodes)}"
        for key, value in sorted(wanted.items())
    ]
    affinity = demand.node_affinity or any(g.spec.node_affinity for g in groups)
    also = "; a node affinity is also required" if affinity else ""
    return f"none of {len(cluster.nodes)} nodes matches; {', '.join(counts) or 'no label is required'}{also}"


def _on_node(found: DeclaredModel, node: ObservedNode, cluster: ClusterView) -> Iterator[Finding]:
    demand, about = found.demand, f"{found.demand.id} on node/{node.metadata.name}"
    yield from (f for f in agent_findings(node, cluster) if f.severity is not Severity.FACT)
    if demand.resolution is None:
        return
    model_node = cluster.model_nodes.get(node.metadata.name)
    key = (demand.id, demand.resolution.revision)
    entry = next((e for e in model_node.spec.entries if e.key == key), None) if model_node else None
    if model_node is None or entry is None:
        message = "the controller has not added it to the ModelNode yet"
        yield wait(about, "NotPlaced", message, _CHECK_LEADER)
        return
    if demand.uid not in {c.uid for c in entry.claims}:
        yield wait(about, "NotClaimed", "the ModelNode lists it for another object; this one's claim will be added")
    yield from entry_findings(entry, statuses_of(model_node, node).get(key), node, cluster)
