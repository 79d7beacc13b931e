"""Reconciles one node group."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from controller.groups.decide import GroupMember, decide_status
from controller.manager.write import replace_part
from controller.state.cluster_state import ClusterState
from shared.api.core import Node
from shared.api.kinds import NODE_GROUP
from shared.kube.objects import timestamp
from shared.kube.transport import Kube


@dataclass(slots=True)
class GroupReconciler:
    """Keeps a node group's status up to date."""

    cluster: ClusterState
    kube: Kube
    now: Callable[[], datetime]

    async def reconcile(self, name: str) -> float | None:
        """Write the status if it differs."""
        group = self.cluster.group(name)
        if group is None:
            return None
        nodes = sorted(self.cluster.membership.members_of(name), key=lambda n: n.metadata.name)
        stamp = timestamp(self.now())
        limits = {n.metadata.name: self.cluster.membership.limits_of(n).storage_bytes for n in nodes}
        status = decide_status(group, [self._member(n, name) for n in nodes], limits, stamp)
        if status != group.status:
            path = f"{NODE_GROUP.path}/{name}/status"
            await replace_part(self.kube, path, group.metadata, "status", status)
        return None

    def _member(self, node: Node, name: str) -> GroupMember:
        found = self.cluster.model_node(node.metadata.name)
        others = tuple(sorted(self.cluster.membership.of(node) - {name}))
        own = found is not None and found.status.node_uid == node.metadata.uid
        return GroupMember(node.metadata.name, found.status.used if found and own else 0, others)
