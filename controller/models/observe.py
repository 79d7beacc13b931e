"""Gathers everything a decision on a model needs, from caches only."""

from bisect import bisect_left
from collections.abc import Container, Iterator
from dataclasses import dataclass

from controller.models.drift import DriftChecker, is_immutable
from controller.models.finalizers import finalizer_of
from controller.models.resolver import Resolver
from controller.models.users import known_users
from controller.models.view import ModelView, Obstacle, PendingRemoval, TargetNode
from controller.nodes.view import foreign_model_node_message
from controller.placement.demand import Demand, Resolution
from controller.state.cluster_state import ClusterState
from controller.state.keys import EntryKey, ModelKey
from controller.state.progress import ProgressTracker
from shared.api.core import Node
from shared.api.model_node import Entry, EntryState, ModelNode
from shared.errors import NameConflict, TooManyModels


@dataclass(frozen=True, slots=True)
class ModelObserver:
    """Reads caches only; if they are stale, a write fails, but nothing is deleted by mistake."""

    cluster: ClusterState
    resolver: Resolver
    progress: ProgressTracker
    drift: DriftChecker

    def view(self, key: ModelKey) -> ModelView | None:
        """Return the model's view from the caches, or None if it does not exist."""
        declared, demand = self.cluster.declared(key), self.cluster.models.demands.get(key)
        if declared is None or demand is None:
            return None
        meta = declared.metadata
        conflict = self.cluster.models.conflict(demand)
        return ModelView(
            demand=demand,
            generation=meta.generation,
            deleted_at=meta.deletion_timestamp,
            has_finalizer=finalizer_of(self.cluster.ownership, key.kind) in meta.finalizers,
            status=declared.status,
            conflict=conflict,
            nodes=tuple(self._target(n, demand) for n in self.cluster.targets_of(demand)) if not conflict else (),
            remaining=self._remaining(demand) if demand.deleting else (),
            existing=self._existing(demand) if demand.placeable and not conflict else None,
            answer=self.resolver.answer_of(meta.uid, demand.uri, demand.selection.key),
            failure=self.resolver.failure_of(meta.uid, meta.generation, demand.refresh) or self._outdated(key),
            may_resolve=self.resolver.wait_s(meta.uid, meta.generation, demand.refresh) == 0,
            highest_number=max(d.number for d in self._sharing(demand)),
            removals=tuple(self._removals(demand)),
            upstream=self.drift.upstream_of(meta.uid, demand.uri),
            drift_check_in_s=self._drift_check_in_s(demand) if not conflict else None,
            users=known_users(self.cluster, demand) if demand.deleting else (),
        )

    def _outdated(self, key: ModelKey) -> Obstacle | None:
        message = self.cluster.ownership.missing_fields(key.kind)
        return Obstacle("OutdatedDefinition", message, retryable=True) if message else None

    def _drift_check_in_s(self, demand: Demand) -> float | None:
        can_drift = demand.placeable and demand.resolution is not None and not is_immutable(demand.uri)
        return self.drift.next_check_in_s(demand.uid) if can_drift else None

    def _target(self, node: Node, demand: Demand) -> TargetNode:
        name, statuses = node.metadata.name, self.cluster.statuses.of(node)
        key = (demand.id, demand.resolution.revision) if demand.resolution else (demand.id, "")
        done, total = self.progress.of(name, key)
        return TargetNode(
            name=name,
            ready=node.ready,
            agent_ready=self.cluster.liveness.ready(name),
            status=statuses.get(key),
            done_bytes=done,
            total_bytes=total,
            serving=statuses.get((demand.id, demand.serving)),
            revisions=self.cluster.statuses.complete_on(node, demand.id, (demand.serving, key[1])),
            obstacle=self._obstacle(node, key),
        )

    def _obstacle(self, node: Node, key: EntryKey) -> Obstacle | None:
        model_node = self.cluster.model_node(node.metadata.name)
        if model_node is not None and (message := foreign_model_node_message(model_node, node.metadata.uid)):
            return Obstacle(NameConflict.__name__, message, retryable=False)
        message = self.cluster.unplaced.reason(node.metadata.name, key)
        return Obstacle(TooManyModels.__name__, message, retryable=True) if message else None

    def _removals(self, demand: Demand) -> Iterator[PendingRemoval]:
        """Yield files that nodes list for this object but should not have; a refused object keeps all of its files."""
        if demand.refused:
            return
        kept = {demand.resolution.revision if demand.resolution else "", demand.serving}
        for name in sorted(self.cluster.listed.nodes_of_owner(demand.uid)):
            node, model_node = self.cluster.node(name), self.cluster.model_node(name)
            if node is None or model_node is None:
                continue
            entries = [e for e in _entries_of(model_node, demand.id) if _may_need_removal(e, kept)]
            wanted = kept if entries and self.cluster.is_target(demand, node) else set[str]()
            for entry in entries:
                claimed = any(c.uid == demand.uid for c in entry.claims)
                if claimed and entry.revision not in wanted and (removal := self._removal_from(node, entry)):
                    yield removal

    def _removal_from(self, node: Node, entry: Entry) -> PendingRemoval | None:
        name = node.metadata.name
        holding = self.cluster.resource_claims.users_of(name, entry.key)
        users = [*self.cluster.pod_users.users_of(name, entry.key), *holding]
        if entry.state == EntryState.PRESENT and not users and not entry.in_use:
            return None  # the node has not been reconciled since
        done, total = self.progress.of(name, entry.key) if entry.state == EntryState.ABSENT else (0, 0)
        in_use = entry.state == EntryState.PRESENT or bool(users)
        away = not (node.ready and self.cluster.liveness.ready(name))
        return PendingRemoval(name, entry.revision, in_use, tuple(users), done, total, away)

    def _remaining(self, demand: Demand) -> tuple[str, ...]:
        """Return the nodes that still list this object and could answer: Ready, with a ready agent."""
        nodes = ((name, self.cluster.node(name)) for name in self.cluster.listed.nodes_of_owner(demand.uid))
        return tuple(sorted(name for name, n in nodes if n and n.ready and self.cluster.liveness.ready(name)))

    def _existing(self, demand: Demand) -> Resolution | None:
        """Return a newer resolution of this model, from another object or from files that no object owns."""
        newest = max((d for d in self._sharing(demand) if d.resolution is not None), key=_newness, default=None)
        if newest is None:
            return self._reserved(demand) if demand.reuse else None
        return newest.resolution if newest.resolution != demand.resolution else None

    def _sharing(self, demand: Demand) -> list[Demand]:
        """Return this demand and all others with its id, source and files that are not being deleted."""
        others = (d for d in self.cluster.models.same_id(demand.id) if d.uid != demand.uid and not d.deleting)
        return [demand, *(d for d in others if d.id == demand.id and d.wants_same_as(demand))]

    def _reserved(self, demand: Demand) -> Resolution | None:
        for model_node in self.cluster.model_nodes:
            for entry in model_node.spec.entries:
                reserved = entry.state == EntryState.PRESENT and not entry.claims and entry.manifest
                matches = (entry.id, entry.uri) == (demand.id, demand.uri)
                if reserved and matches and demand.selection.has_revision(entry.revision):
                    key = demand.selection.key
                    return Resolution(entry.uri, entry.revision, entry.manifest, entry.size, selection=key)
        return None


def _newness(demand: Demand) -> tuple[int, str, str]:
    """Sort key for resolved demands; for equal numbers any order will do, as long as all objects agree."""
    resolution = demand.resolution
    return demand.number, resolution.revision if resolution else "", resolution.manifest if resolution else ""


def _entries_of(model_node: ModelNode, identity: str) -> Iterator[Entry]:
    """Yield the entries of one model, found by bisection because thousands of nodes may have hundreds each."""
    entries = model_node.spec.entries
    for index in range(bisect_left(entries, identity, key=lambda e: e.id), len(entries)):
        if entries[index].id != identity:
            return
        yield entries[index]


def _may_need_removal(entry: Entry, kept: Container[str]) -> bool:
    """Return whether an entry needs a closer look; on most of thousands of nodes there is nothing to remove."""
    return entry.revision not in kept or entry.state != EntryState.PRESENT or entry.in_use
