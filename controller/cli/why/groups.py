"""Explains why the nodes of a group make no progress. No input or output, no clock."""

from collections.abc import Iterator

from controller.cli.why.findings import Diagnosis, Finding, Severity, fact, not_found, ordered, some, stop
from controller.cli.why.kinds import ObservedNode
from controller.cli.why.nodes import agent_findings, holders_of, leader_findings
from controller.cli.why.view import ClusterView
from controller.placement.groups import may_evict
from shared.api.meta import condition_of
from shared.api.model_cache_node_group import LEAST_RECENTLY_USED, ModelCacheNodeGroup
from shared.quantity import format_bytes


def why_group(name: str, cluster: ClusterView) -> Diagnosis:
    """Return the diagnosis of a node group."""
    title = f"ModelCacheNodeGroup {name}"
    group = next((g for g in cluster.groups if g.metadata.name == name), None)
    if group is None:
        have = some(g.metadata.name for g in cluster.groups) or "none"
        return not_found(title, f"there is no such group; existing groups: {have}")
    members = [n for n in cluster.nodes if group in cluster.groups_of(n)]
    findings = [*leader_findings(cluster), *_members(group, members, cluster), *_grants(group, cluster)]
    for node in members:
        findings += [f for f in agent_findings(node, cluster) if f.severity is not Severity.FACT]
    return Diagnosis(title, ordered(findings))


def _members(group: ModelCacheNodeGroup, members: list[ObservedNode], cluster: ClusterView) -> Iterator[Finding]:
    if not members:
        wanted = ", ".join(f"{k}={v}" for k, v in sorted(group.spec.node_selector.items())) or "the node affinity"
        yield stop("nodes", "NoNodes", f"none of {len(cluster.nodes)} nodes matches {wanted}", "label a node")
        return
    limit = f"each can hold {group.spec.storage_limit}{_eviction_note(group, members, cluster)}"
    yield fact("nodes", "Members", f"{some(n.metadata.name for n in members)}; {limit}")
    overlapping = condition_of(group.status.conditions, "Overlapping")
    if overlapping is not None and overlapping.status == "True":
        yield fact("nodes", "Overlapping", overlapping.message)
    left = format_bytes(group.status.available)
    yield fact("nodes", "Space", f"used {format_bytes(group.status.used)}, available {left}, across all nodes")


def _eviction_note(group: ModelCacheNodeGroup, members: list[ObservedNode], cluster: ClusterView) -> str:
    """Return a note on where idle models may be evicted: all groups of a node have to allow it."""
    if group.spec.eviction_policy != LEAST_RECENTLY_USED:
        return ""
    kept = [n.metadata.name for n in members if not may_evict(cluster.groups_of(n))]
    if not kept:
        return "; idle models are evicted to make room"
    if len(kept) == len(members):
        return "; no idle models are evicted, because another group of each node has evictionPolicy Never"
    return (
        f"; idle models are evicted to make room, except on {some(kept)}, where another group has evictionPolicy Never"
    )


def _grants(group: ModelCacheNodeGroup, cluster: ClusterView) -> Iterator[Finding]:
    most = group.spec.max_concurrent_nodes
    if most:
        holders = holders_of(group.metadata.name, cluster)
        yield fact("downloads", "Grants", f"{len(holders)} of {most} are in use: {some(holders) or 'none'}")
