"""The agent's loop: observe, decide, act, report; every change and the clock wake it."""

import asyncio
import math
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace

import msgspec
import structlog

from agent.event_wait import wait_or_timeout
from agent.reconciler.activity import Activity
from agent.reconciler.decide import decide, next_due_s
from agent.reconciler.executor import ActionExecutor
from agent.reconciler.labels import label_changes
from agent.reconciler.observation import Observation
from agent.reconciler.observe import observe
from agent.reconciler.own_node import OwnNode
from agent.reconciler.scanner import Scanner
from agent.reconciler.state_cache import Space, StateCache
from agent.reconciler.status import entry_statuses, node_conditions
from agent.reconciler.status_writer import StatusWriter
from agent.store.store import Store
from shared.api.meta import Condition
from shared.api.model_node import PROTOCOL, ModelNode, ModelNodeStatus, Phase
from shared.backoff import Backoff
from shared.errors import LarderError
from shared.kube.errors import KubeError
from shared.quantity import format_bytes

_LOG: structlog.stdlib.BoundLogger = structlog.get_logger()
_MAX_PAUSE_S = 10.0
_LIVENESS_TIMEOUT_S = 60.0
_DROP_IDLE_EVERY_S = 3600.0
_IDLE_ROUNDS = 7 * 24
_READ_BACKOFF = Backoff(first_s=0.2, cap_s=5)


@dataclass(slots=True)
class Reconciler:
    """Keeps the disk and the labels of one node in line with its ModelNode."""

    cache: StateCache
    store: Store
    node: OwnNode
    activity: Activity
    status_writer: StatusWriter
    threads: Executor
    scanner: Scanner
    version: str
    slots: int
    node_interval_s: float
    clock: Callable[[], float]
    set_rate: Callable[[float], None]
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    after_pass: Callable[[Observation, Space], None] | None = None
    other_conditions: Callable[[], list[Condition]] = list
    _adopted: bool = field(default=False, init=False)
    _last_step_s: float = field(default=math.nan, init=False)
    _woken: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _node_is_stale: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    def wake(self) -> None:
        """Request another decision."""
        self._woken.set()

    def request_node_read(self) -> None:
        """Request a fresh read of the agent's own Node, because another Node may have taken its name."""
        self._node_is_stale.set()

    def set_model_node(self, model_node: ModelNode | None) -> None:
        """Take the newest ModelNode, or None if there is none."""
        self.cache.set_model_node(model_node, self.clock())
        if model_node:
            self.status_writer.observe(model_node)
        if model_node and model_node.spec.node_uid != self.cache.node.uid:
            self.request_node_read()
        self.wake()

    def mark_synced(self) -> None:
        """Record that the initial list is complete."""
        self.cache.synced = True
        self.wake()

    def space(self) -> Space:
        """Return the store's space as last read, with the current limit."""
        return replace(self.cache.space, limit=self.cache.storage_limit)

    def why_not_alive(self) -> str:
        """Return how long ago the last step of a pass ended if that is too long, or an empty string."""
        silent_s = self.clock() - self._last_step_s  # NaN before the first pass
        return f"the reconciler has not finished a step for {silent_s:.0f} s" if silent_s > _LIVENESS_TIMEOUT_S else ""

    def why_not_ready(self) -> str:
        """Return what the agent is waiting for; empty once it has adopted what is on disk."""
        if self._adopted:
            return ""
        if math.isnan(self._last_step_s):
            return "the agent has not read its disk and its Node yet"
        if not self.cache.synced:
            return "the agent has not listed its ModelNode yet"
        return "the agent has not checked the Node's labels yet"

    def observation(self) -> Observation:
        """Return the current observation."""
        return observe(self.cache, self.activity, self.slots, self.clock())

    async def prepare(self) -> None:
        """Read the Node and the disk, which every decision needs."""
        await asyncio.get_running_loop().run_in_executor(self.threads, self.store.recover)
        await self.scanner.read()
        failures = 0
        while not self.cache.node.uid:
            try:
                self.cache.set_node(await self.node.read(), self.clock())
            except KubeError as error:
                failures += 1
                _LOG.warning("node_not_read", node=self.node.name, reason=error.reason, message=str(error))
                await self.sleep(_READ_BACKOFF.delay_s(failures))
        _LOG.info("store_opened", node=self.node.name, snapshots=len(self.cache.held), root=str(self.store.root))

    async def run(self, executor: ActionExecutor) -> None:
        """Decide and act until cancelled."""
        while True:
            self._woken.clear()
            observation = self.observation()
            if observation.own_model_node:
                self.set_rate(observation.own_model_node.spec.bandwidth_limit)
            actions = decide(observation)
            for action in actions:
                await executor.act(action)
                self._last_step_s = self.clock()  # on a slow disk, a pass over many models takes minutes
            self._report()
            self._last_step_s = self.clock()
            if self.after_pass:
                self.after_pass(self.observation(), self.space())
            if actions:
                continue
            self._adopted = self._adopted or (observation.synced and not label_changes(observation))
            await self._pause(next_due_s(observation))

    async def drop_idle_files(self) -> None:
        """Periodically drop unfinished files that nothing has wanted for a long time."""
        while True:
            await self.sleep(_DROP_IDLE_EVERY_S)
            if self.observation().own_model_node is None:
                continue
            wanted = list(self.cache.plans.values())
            try:
                count = await asyncio.get_running_loop().run_in_executor(
                    self.threads, self.store.unfinished.drop_idle, wanted, _IDLE_ROUNDS
                )
            except LarderError as error:
                _LOG.warning("unfinished_files_not_dropped", reason=error.reason, message=str(error))
            else:
                if count:
                    _LOG.info("unfinished_files_dropped", node=self.node.name, count=count)

    async def watch_node(self) -> None:
        """Read the agent's own Node periodically, and whenever it may have been replaced."""
        failures = 0
        while True:
            await wait_or_timeout(self._node_is_stale, self.node_interval_s)
            self._node_is_stale.clear()
            before = self.cache.label_changes
            try:
                current = await self.node.read()
            except KubeError as error:
                failures += 1
                _LOG.warning("node_not_read", node=self.node.name, reason=error.reason, message=str(error))
                await self.sleep(_READ_BACKOFF.delay_s(failures))
                self._node_is_stale.set()
                continue
            failures = 0
            if before != self.cache.label_changes:
                self._node_is_stale.set()  # our own patch overtook this read
                continue
            if current.uid != self.cache.node.uid:
                _LOG.info("node_replaced", node=self.node.name, uid=current.uid)
            self.cache.set_node(current, self.clock())
            self.wake()

    def _report(self) -> None:
        observation = self.observation()
        model_node = observation.own_model_node
        if model_node is None:
            self.status_writer.clear()
            return
        entries, space = entry_statuses(observation), self.space()
        self.status_writer.offer(
            ModelNodeStatus(
                node_uid=observation.node_uid,
                store_id=self.store.id,
                protocol=PROTOCOL,
                agent_version=self.version,
                store_root=str(self.store.root),
                observed_generation=model_node.metadata.generation,
                used=space.used,
                reserved=space.reserved,
                limit=space.limit,
                disk_free=space.disk_free,
                floor=space.floor,
                printed_used=format_bytes(space.used),
                printed_limit=format_bytes(space.limit) if space.limit else "none",
                printed_free=format_bytes(space.disk_free),
                conditions=self._conditions(space, model_node.metadata.generation),
                ready_count=sum(s.phase == Phase.READY for s in entries),
                entry_count=len(entries),
                entries=entries,
            ),
            model_node.metadata.uid,
        )

    def _conditions(self, space: Space, generation: int) -> list[Condition]:
        own = node_conditions(self.scanner.volume, space.disk_size, space.floor, generation)
        return [*own, *(msgspec.structs.replace(c, observed_generation=generation) for c in self.other_conditions())]

    async def _pause(self, due_s: float | None) -> None:
        pause_s = _MAX_PAUSE_S if due_s is None else min(due_s - self.clock(), _MAX_PAUSE_S)
        await wait_or_timeout(self._woken, max(pause_s, 0))
