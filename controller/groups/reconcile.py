"""One turn for one node group, and one for the downloads of all of them."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import msgspec
import structlog

from controller.edit import replace_part
from controller.groups.decide import Member, decide_status
from controller.nodes.reconcile import NodeReconciler
from controller.placement.grants import Contender, decide_grants
from controller.progress import ProgressBook
from controller.world import World
from shared.api.core import Node
from shared.api.kinds import NODE_GROUP
from shared.api.model_node import Entry, EntryState, ModelNode, Phase
from shared.kube.objects import Key
from shared.kube.transport import Kube

_log = structlog.get_logger()
_SETTLED = (Phase.READY, Phase.FAILED, Phase.REPAIRING, Phase.DRAINING, Phase.ABSENT)
_LOOK_S = 5.0


@dataclass(slots=True)
class GroupReconciler:
    """Brings a node group's status up to date."""

    world: World
    kube: Kube
    now: Callable[[], datetime]

    async def reconcile(self, name: str) -> float | None:
        """Write the status where it differs."""
        group = self.world.groups.get(Key("", name))
        if group is None:
            return None
        nodes = sorted((n for n in self.world.nodes if self._has(n, name)), key=lambda n: n.metadata.name)
        stamp = self.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        limits = {n.metadata.name: self.world.limits_of(n).storage_bytes for n in nodes}
        status = decide_status(group, [self._member(n, name) for n in nodes], limits, stamp)
        if status != group.status:
            path = f"{NODE_GROUP.path}/{name}/status"
            await replace_part(self.kube, path, group.metadata, "status", msgspec.to_builtins(status))
        return None

    def _has(self, node: Node, name: str) -> bool:
        return any(g.metadata.name == name for g in self.world.groups_of(node))

    def _member(self, node: Node, name: str) -> Member:
        found = self.world.model_node(node.metadata.name)
        others = tuple(g.metadata.name for g in self.world.groups_of(node) if g.metadata.name != name)
        own = found is not None and found.status.node_uid == node.metadata.uid
        return Member(node.metadata.name, found.status.used if found and own else 0, others)


@dataclass(slots=True)
class GrantsReconciler:
    """Decides which nodes of limited groups may download, and asks for their ModelNodes to say so."""

    world: World
    progress: ProgressBook
    nodes: NodeReconciler
    enqueue: Callable[[str], None]
    lost_s: float
    stalled_s: float

    async def reconcile(self) -> float | None:
        """Return in how many seconds to look again: time alone can take a grant away."""
        limits = {g.metadata.name: g.spec.max_concurrent_nodes for g in self.world.groups}
        limited = {name: most for name, most in limits.items() if most}
        contenders = [c for n in self.world.nodes if (c := self._contender(n, limited)) is not None]
        granted = decide_grants(contenders, limited)
        before, self.nodes.granted = self.nodes.granted, set(granted)
        was_limited, self.nodes.limited = self.nodes.limited, {c.node for c in contenders}
        changed = (before ^ self.nodes.granted) | (was_limited ^ self.nodes.limited)
        for name in changed:
            self.enqueue(name)
        if changed:
            _log.info("grants_changed", granted=sorted(granted))
        return _LOOK_S if any(c.wants or c.holds for c in contenders) else None

    def _contender(self, node: Node, limited: dict[str, int]) -> Contender | None:
        groups = tuple(g.metadata.name for g in self.world.groups_of(node) if g.metadata.name in limited)
        if not groups:
            return None
        name = node.metadata.name
        open_entries = self._open(node, self.world.model_node(name))
        return Contender(
            node=name,
            groups=groups,
            wants=bool(open_entries),
            holds=any(e.granted for e in open_entries),
            granted=name in self.nodes.granted,
            lost=self.world.away_s(name) > self.lost_s or self.progress.idle_s(name) > self.stalled_s,
            priority=max((e.priority for e in open_entries), default=0),
            since=min((e.since for e in open_entries), default=""),
        )

    def _open(self, node: Node, found: ModelNode | None) -> list[Entry]:
        if found is None or found.spec.node_uid != node.metadata.uid:
            return []
        statuses = {s.key: s.phase for s in found.status.entries} if found.status.node_uid == node.metadata.uid else {}
        return [e for e in found.spec.entries if e.state == EntryState.PRESENT and statuses.get(e.key) not in _SETTLED]
