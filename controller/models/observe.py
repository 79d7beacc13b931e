"""Gathers what a decision on a model needs, from memory."""

from dataclasses import dataclass

from controller.keys import ModelKey
from controller.models.view import ModelView, TargetNode
from controller.placement.demand import Demand, Resolution
from controller.progress import ProgressBook
from controller.resolver import Resolver
from controller.world import World
from shared.api.core import Node
from shared.api.model_node import EntryState

OWN_FINALIZER = "larder.dev/finalizer"
FINALIZERS = {
    "BaseModel": "basemodels.ome.io/finalizer",
    "ClusterBaseModel": "clusterbasemodels.ome.io/finalizer",
    "ClusterModelCache": OWN_FINALIZER,
}


@dataclass(frozen=True, slots=True)
class ModelObserver:
    """Reads memory only: what is stale there makes a write fail, not a deletion happen."""

    world: World
    resolver: Resolver
    progress: ProgressBook

    def finalizer_of(self, kind: str) -> str:
        """Return the finalizer for a kind; where another product defined it, one that cannot be that product's own."""
        return OWN_FINALIZER if self.world.ownership.is_foreign(kind) else FINALIZERS[kind]

    def view(self, key: ModelKey) -> ModelView | None:
        """Return the model as the reflectors know it, or None."""
        declared, demand = self.world.declared(key), self.world.demands.get(key)
        if declared is None or demand is None:
            return None
        meta = declared.metadata
        conflict = self.world.conflict(demand)
        return ModelView(
            demand=demand,
            generation=meta.generation,
            deleted_at=meta.deletion_timestamp,
            has_finalizer=self.finalizer_of(key.kind) in meta.finalizers,
            status=declared.status,
            conflict=conflict,
            nodes=tuple(self._target(n, demand) for n in self.world.targets_of(demand)) if not conflict else (),
            remaining=self._remaining(demand) if demand.deleting else (),
            kept=self._kept(demand) if demand.stocked and demand.resolution is None and not conflict else None,
            found=self.resolver.found(meta.uid, demand.uri),
            trouble=self.resolver.trouble_of(meta.uid, meta.generation),
            may_resolve=self.resolver.wait_s(meta.uid, meta.generation) == 0,
        )

    def _target(self, node: Node, demand: Demand) -> TargetNode:
        name = node.metadata.name
        key = (demand.id, demand.resolution.revision) if demand.resolution else (demand.id, "")
        done, total = self.progress.of(name, key)
        return TargetNode(
            name=name,
            ready=node.ready,
            agent_ready=self.world.presence.ready(name),
            status=self.world.statuses_of(node).get(key),
            done_bytes=done,
            total_bytes=total,
        )

    def _remaining(self, demand: Demand) -> tuple[str, ...]:
        """Return the nodes that still list this object and could answer: Ready, with a ready agent."""
        nodes = ((name, self.world.node(name)) for name in self.world.nodes_of_claim(demand.uid))
        return tuple(sorted(name for name, n in nodes if n and n.ready and self.world.presence.ready(name)))

    def _kept(self, demand: Demand) -> Resolution | None:
        """Return what another object with this id and source has, or what nodes kept though no object claims it."""
        for other in self.world.same_id(demand.id):
            if other.uri == demand.uri and other.resolution is not None and not other.deleting:
                return other.resolution
        return self._reserved(demand) if demand.reuse else None

    def _reserved(self, demand: Demand) -> Resolution | None:
        for model_node in self.world.model_nodes:
            for entry in model_node.spec.entries:
                kept = entry.state == EntryState.PRESENT and not entry.claims and entry.manifest
                if kept and entry.id == demand.id and entry.uri == demand.uri:
                    return Resolution(entry.uri, entry.revision, entry.manifest, entry.size)
        return None
