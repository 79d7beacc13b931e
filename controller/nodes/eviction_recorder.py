"""Records evictions: counters, and an Event on every object that wants the evicted model."""

from collections.abc import Callable
from dataclasses import dataclass

import structlog
from prometheus_client import CollectorRegistry, Counter

from controller.manager.event_recorder import EventRecorder
from controller.nodes.view import NodeView
from shared.api.kinds import DEFINITIONS
from shared.api.model_node import EntryState, ModelNodeSpec
from shared.kube.objects import Meta
from shared.quantity import format_bytes

_log = structlog.get_logger()
_DEFINITIONS = {d.kind: d for d in DEFINITIONS}


class EvictionMetrics:
    """Counts the evictions that this replica decided."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._evictions = Counter("larder_evictions", "Models evicted from a node to make room.", registry=registry)
        self._bytes = Counter("larder_evicted_bytes", "Bytes freed by evictions.", registry=registry)

    def count_eviction(self, size_bytes: int) -> None:
        """Count an eviction."""
        self._evictions.inc()
        self._bytes.inc(size_bytes)


@dataclass(frozen=True, slots=True)
class EvictionRecorder:
    """Records the evictions that a written spec makes; `count` receives the bytes that an eviction frees."""

    events: EventRecorder
    count: Callable[[int], None]

    async def record(self, view: NodeView, spec: ModelNodeSpec) -> None:
        """Record the entries that this spec, now written, evicts from the node."""
        current = view.model_node
        before = {e.key: e.state for e in current.spec.entries} if current else {}
        frees = {s.key: s.frees for s in current.status.entries} if current else {}
        for entry in spec.entries:
            if not entry.evicted_for or entry.state != EntryState.ABSENT or before.get(entry.key) == EntryState.ABSENT:
                continue
            size = frees.get(entry.key, 0)
            self.count(size)
            _log.info("model_evicted", node=view.name, model=entry.id, revision=entry.revision, size_bytes=size,
                      made_room_for=entry.evicted_for)  # fmt: skip
            message = f"evicted from {view.name} to make room for {entry.evicted_for}; this frees {format_bytes(size)}"
            for claim in entry.claims:
                target = Meta(name=claim.name, namespace=claim.namespace, uid=claim.uid)
                await self.events.record(_DEFINITIONS[claim.kind], target, "Evicted", message, warn=False)
