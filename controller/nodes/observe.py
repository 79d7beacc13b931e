"""Gathers what a decision on a node needs; the only module of this folder that reads."""

from dataclasses import dataclass, replace
from typing import Any

import msgspec

from controller.live import Live
from controller.nodes.users import users_of
from controller.nodes.view import EntryKey, NodeView
from controller.placement.groups import is_member
from controller.placement.targets import is_target
from controller.world import World
from shared.api.core import PODS, Node
from shared.api.model_node import ModelNode, Phase
from shared.kube.transport import Kube


@dataclass(frozen=True, slots=True)
class NodeObserver:
    """Reads memory first, and the API server live for what a removal depends on."""

    world: World
    kube: Kube
    live: Live
    store_root: str

    def view(self, name: str, *, granted: bool) -> NodeView | None:
        """Return the node as the reflectors know it; None where there is no such Node."""
        node = self.world.node(name)
        if node is None:
            return None
        demands = tuple(self.world.demands_for(node))
        model_node = self.world.model_node(name)
        return NodeView(
            name=name,
            uid=node.metadata.uid,
            demands=demands,
            keepers=frozenset(d.uid for d in self.world.demands.values() if not d.deleting),
            limits=self.world.limits_of(node),
            granted=granted,
            model_node=model_node,
            in_use=self.world.in_use(name, model_node) if model_node else frozenset(),
            group_of=self._groups_of_claims(node),
        )

    async def with_users(self, view: NodeView) -> NodeView:
        """Add the pods of the node, listed live."""
        query = {"fieldSelector": f"spec.nodeName={view.name}"}
        body = await self.kube.request("GET", PODS, query)
        pods: list[dict[str, Any]] = msgspec.json.decode(body)["items"]
        keys = {e.key for e in view.model_node.spec.entries} if view.model_node else set()
        return replace(view, users=users_of(pods, keys | _reported(view), self.store_root))

    async def with_unknown(self, view: NodeView) -> NodeView:
        """Add which unknown snapshots no CR wants, by a live read of every kind."""
        node = self.world.node(view.name)
        if node is None:
            return replace(view, unwanted_unknown=frozenset())
        groups, meta = self.world.group_map(), node.metadata
        wanted = {
            (d.id, revision)
            for d in await self.live.demands()
            if is_target(d, groups, meta.name, meta.labels) and (d.resolution is None or not d.deleting)
            for revision in ((d.resolution.revision, d.serving) if d.resolution else _any_revision(view, d.id))
        }
        return replace(view, unwanted_unknown=frozenset(_reported(view) - wanted))

    def _groups_of_claims(self, node: Node) -> dict[str, str]:
        """Return, of each demand that names groups, the first that the node belongs to."""
        groups, meta = self.world.group_map(), node.metadata
        return {
            d.uid: group
            for d in self.world.demands.values()
            for group in reversed(d.groups)
            if group in groups and is_member(groups[group], meta.name, meta.labels)
        }


def _reported(view: NodeView) -> set[EntryKey]:
    found: ModelNode | None = view.model_node
    if found is None or found.status.node_uid != view.uid:
        return set()
    return {s.key for s in found.status.entries if s.phase == Phase.UNKNOWN}


def _any_revision(view: NodeView, identity: str) -> set[str]:
    """A model that is not resolved yet may turn out to want any revision that is there."""
    return {revision for found, revision in _reported(view) if found == identity}
