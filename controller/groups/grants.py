"""Grants downloads to the nodes of all limited groups."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

import structlog

from controller.placement.grants import Contender, decide_grants
from controller.state.cluster_state import ClusterState
from controller.state.nodes.entry_statuses import Statuses
from controller.state.progress import ProgressTracker
from shared.api.core import Node
from shared.api.model_node import COMPLETE_PHASES, PATH, EntryState, ModelNode, Phase
from shared.kube.collection import list_objects
from shared.kube.objects import Key, Object
from shared.kube.transport import Kube

_log = structlog.get_logger()
_SETTLED = (*COMPLETE_PHASES, Phase.FAILED, Phase.ABSENT)
_POLL_S = 5.0
_OVERLAP_S = 0.5
_CATCH_UP_S = 0.2
_POLLS_PER_LIST = 25


@dataclass(frozen=True, slots=True)
class _Load:
    """What a node has left to download."""

    wants: bool = False
    holds: bool = False
    awaited: bool = False
    priority: int = 0
    since: str = ""


_NOTHING = _Load()


@dataclass(slots=True)
class GrantsReconciler:
    """Decides which nodes of limited groups may download, and enqueues them when that changes.

    A grant ends after `stalled_s` without progress, and after `longest_s` in any case, so that others get their turn.

    `granted` is shared with the writers of ModelNodes; only this reconciler changes it.
    """

    cluster: ClusterState
    kube: Kube
    progress: ProgressTracker
    granted: set[str]
    enqueue: Callable[[str], None]
    lost_s: float
    stalled_s: float
    longest_s: float = math.inf
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    _granted_at: dict[str, float] = field(default_factory=dict, init=False)
    _stalls: dict[str, int] = field(default_factory=dict, init=False)
    _loads: dict[str, tuple[ModelNode, Node, _Load]] = field(default_factory=dict, init=False)

    async def take_over(self) -> None:
        """Drop earlier state, and wait until the cache has every spec the previous leader wrote. Raises KubeError."""
        self.granted.clear()
        self.progress.clear()
        self._granted_at.clear()
        self._stalls.clear()
        if not self._limits():
            return
        while True:
            written = {o.key: o.metadata.generation for o in await list_objects(self.kube, PATH, Object)}
            for _ in range(_POLLS_PER_LIST):
                if not self._is_behind(written):
                    return
                await self.sleep(_CATCH_UP_S)

    async def reconcile(self) -> float | None:
        """Update all grants; return the delay in seconds until the next run, because time alone can end a grant."""
        limited = self._limits()
        self._prune()
        contenders = [c for n in self.cluster.nodes if (c := self._contender(n, limited)) is not None]
        before, granted = frozenset(self.granted), decide_grants(contenders, limited)
        self._note(granted, contenders)
        self.granted.clear()
        self.granted.update(granted)
        overdue = {c.node for c in contenders if c.holds and c.node not in granted}
        for name in sorted((before ^ granted) | overdue):
            self.enqueue(name)
        if before != granted:
            _log.info("grants_changed", granted=sorted(granted - before), revoked=sorted(before - granted))
        if before - granted:
            return _OVERLAP_S
        return _POLL_S if any(c.wants or c.holds for c in contenders) else None

    def _limits(self) -> dict[str, int]:
        return {g.metadata.name: most for g in self.cluster.groups if (most := g.spec.max_concurrent_nodes)}

    def _is_behind(self, written: Mapping[Key, int]) -> bool:
        found = ((self.cluster.model_nodes.get(key), generation) for key, generation in written.items())
        return any(known is None or known.metadata.generation < generation for known, generation in found)

    def _contender(self, node: Node, limited: Mapping[str, int]) -> Contender | None:
        groups = tuple(name for name in sorted(self.cluster.membership.of(node)) if name in limited)
        if not groups:
            return None
        name, load = node.metadata.name, self._load(node)
        return Contender(
            node=name,
            groups=groups,
            wants=load.wants,
            holds=load.holds,
            granted=name in self.granted,
            lost=self.cluster.liveness.away_s(name) > self.lost_s or self._is_over(name),
            awaited=load.awaited,
            priority=load.priority,
            since=load.since,
            stalls=self._stalls.get(name, 0),
        )

    def _load(self, node: Node) -> _Load:
        """Return a node's load, cached by object because few of thousands of nodes change between two runs."""
        model_node = self.cluster.model_node(node.metadata.name)
        if model_node is None or model_node.spec.node_uid != node.metadata.uid:
            return _NOTHING
        known = self._loads.get(node.metadata.name)
        if known is None or known[0] is not model_node or known[1] is not node:
            load = _load_of(model_node, self.cluster.statuses.of(node))
            known = self._loads[node.metadata.name] = model_node, node, load
        return known[2]

    def _is_over(self, name: str) -> bool:
        """Return whether a grant ends because the download stalled or has lasted as long as a grant may."""
        granted_at, now = self._granted_at.get(name), self.cluster.clock()
        if granted_at is None:
            return False
        moved_at = max(granted_at, self.progress.grew_at(name) or granted_at)
        return now - moved_at > self.stalled_s or now - granted_at > self.longest_s

    def _note(self, granted: frozenset[str], contenders: list[Contender]) -> None:
        for c in contenders:
            if c.node in self._granted_at and c.lost and c.wants:
                self._stalls[c.node] = c.stalls + 1  # others get a turn before it is retried
            elif not c.wants:
                self._stalls.pop(c.node, None)
        now = self.cluster.clock()
        for name in granted - self._granted_at.keys():
            self.progress.begin(name)
        self._granted_at = {name: self._granted_at.get(name, now) for name in granted}

    def _prune(self) -> None:
        """Drop the state of deleted nodes."""
        names = {n.metadata.name for n in self.cluster.nodes}
        self.progress.keep_only(names)
        for state in (self._loads, self._stalls):
            for name in state.keys() - names:
                del state[name]


def _load_of(model_node: ModelNode, statuses: Statuses) -> _Load:
    """Return what is left to download; a failed entry that is still granted keeps its slot: its agent may retry."""
    present = [e for e in model_node.spec.entries if e.state == EntryState.PRESENT]
    phases = {key: status.phase for key, status in statuses.items()}
    wanting = [e for e in present if phases.get(e.key) not in _SETTLED]
    return _Load(
        wants=bool(wanting),
        holds=any(e.granted and phases.get(e.key) not in COMPLETE_PHASES for e in present),
        awaited=any(e.awaited for e in wanting),
        priority=max((e.priority for e in wanting), default=0),
        since=min((e.since for e in wanting), default=""),
    )
