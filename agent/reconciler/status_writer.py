"""Writes the status of the agent's ModelNode: on transitions, at most once a second, never from a stale read.

Long statuses are written less often, so many changes within a few seconds become one write.

The readiness of the agent's pod shows whether the agent is alive, so an unchanged status needs no write.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec
import structlog

from agent.event_wait import wait_or_timeout
from agent.reconciler.status import fit_size
from shared.api.model_node import PATH, EntryStatus, ModelNode, ModelNodeSpec, ModelNodeStatus
from shared.backoff import Backoff, Uniform
from shared.kube.edit import update
from shared.kube.errors import KubeError, NotFound
from shared.kube.objects import timestamp
from shared.kube.transport import Kube

_LOG: structlog.stdlib.BoundLogger = structlog.get_logger()
_LEAST_STEP_BYTES = 2**30
_STEP_SHARE = 0.01
_BYTES_S = 64 * 1024  # a status of a thousand entries has 250 KiB, so it is written at most every four seconds


def wall_clock() -> str:
    """Return the current time in the format of Kubernetes objects."""
    return timestamp(datetime.now(UTC))


def transition_fields(status: ModelNodeStatus) -> tuple[object, ...]:
    """Return what must be reported immediately; messages and figures may wait."""
    entries = tuple(
        (s.key, s.phase, s.observed, s.reason, s.verified, s.shortage > 0, s.metadata) for s in status.entries
    )
    conditions = tuple((c.type, c.status, c.reason) for c in status.conditions)
    place = status.node_uid, status.store_id, status.store_root
    return *place, status.observed_generation, status.limit, conditions, entries


def figures_changed(status: ModelNodeStatus, written: ModelNodeStatus) -> bool:
    """Return whether a figure is off by more than 1 GiB and 1 % of the disk, or an entry has failed again.

    The size of the disk is taken as used plus free. Without this threshold, a disk that other programs write to would
    cause constant writes of the status.
    """
    step = max(_LEAST_STEP_BYTES, _STEP_SHARE * (status.used + status.disk_free))
    pairs = ((status.used, written.used), (status.reserved, written.reserved), (status.disk_free, written.disk_free))
    attempts = ([s.attempts for s in one.entries] for one in (status, written))
    return any(abs(now - before) > step for now, before in pairs) or next(attempts) != next(attempts)


def with_transition_times(status: ModelNodeStatus, before: ModelNodeStatus, now: str) -> ModelNodeStatus:
    """Return the status with the time at which each entry entered its phase and each condition its status."""
    known = {s.key: s for s in before.entries}
    standing = {(c.type, c.status): c.last_transition_time for c in before.conditions}
    return msgspec.structs.replace(
        status,
        entries=[_dated(s, known.get(s.key), now) for s in status.entries],
        conditions=[
            msgspec.structs.replace(c, last_transition_time=standing.get((c.type, c.status)) or now)
            for c in status.conditions
        ],
    )


def _dated(status: EntryStatus, before: EntryStatus | None, now: str) -> EntryStatus:
    since = before.since if before and before.phase == status.phase and before.since else now
    return msgspec.structs.replace(status, since=since)


@dataclass(slots=True)
class StatusWriter:
    """Writes the newest status offered; `run` ends only by cancellation.

    Changes other than transitions are checked every `check_interval_s` seconds. The first one after a transition is
    written at once, since figures lag behind work; later ones are written after `changed_interval_s` if a figure has
    changed considerably, after `max_interval_s` otherwise. Both waits are shortened by up to half to spread the nodes'
    writes: 5,000 nodes downloading at once make fewer than 40 such writes per second.
    """

    kube: Kube
    name: str
    min_interval_s: float = 1.0
    check_interval_s: float = 30.0
    changed_interval_s: float = 180.0
    max_interval_s: float = 600.0
    now: Callable[[], str] = wall_clock
    clock: Callable[[], float] = time.monotonic
    uniform: Uniform = random.uniform
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    backoff: Backoff = Backoff(first_s=0.5, cap_s=10)
    _uid: str = field(default="", init=False)  # of the ModelNode that the status is for
    _offered: ModelNodeStatus | None = field(default=None, init=False)
    _written: ModelNodeStatus | None = field(default=None, init=False)
    _written_s: float = field(default=0.0, init=False)
    _jitter: float = field(default=1.0, init=False)  # factor by which the waits are shortened until the next write
    _wrote_transition: bool = field(default=False, init=False)  # whether the last write had a transition
    _pause_s: float = field(default=0.0, init=False)  # minimum pause after the last write, from its size
    _pending: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    def offer(self, status: ModelNodeStatus, uid: str) -> None:
        """Set the newest status of the ModelNode with this uid; transitions are written soon, figures eventually."""
        if uid != self._uid:
            self.clear()
            self._uid = uid
        self._offered = status
        if self._written is None or transition_fields(status) != transition_fields(self._written):
            self._pending.set()

    def clear(self) -> None:
        """Offer nothing until the next status: the ModelNode is gone or is not ours."""
        self._offered = self._written = None
        self._uid = ""

    def observe(self, node: ModelNode) -> None:
        """Write again if the API server has an older status than the last one written, as after a restored backup."""
        written = self._written
        if written is None or node.metadata.uid != self._uid:
            return
        if transition_fields(node.status) != transition_fields(fit_size(written)):
            self._written = None
            self._pending.set()

    async def run(self) -> None:
        """Write whenever something has changed."""
        failures = 0
        while True:
            await self._wait_for_change()
            try:
                await self._write()
            except KubeError as error:
                failures += 1
                delay_s = self.backoff.delay_s(failures)
                _LOG.warning("status_not_written", reason=error.reason, message=str(error))
                self._pending.set()
                await self.sleep(delay_s)
            else:
                failures = 0
                await self.sleep(max(self.min_interval_s, self._pause_s))

    async def flush(self) -> None:
        """Write a pending change once, on shutdown."""
        if self._pending.is_set():
            await self._write()

    async def _wait_for_change(self) -> None:
        await wait_or_timeout(self._pending, self.check_interval_s)
        self._pending.clear()

    async def _write(self) -> None:
        status, uid = self._offered, self._uid
        if status is None or status == self._written or not self._is_due(status):
            return
        try:
            await update(self.kube, f"{PATH}/{self.name}/status", lambda found: self._changed(found, status, uid))
        except NotFound:
            _LOG.info("status_not_written", reason="NotFound", message="there is no ModelNode", node=self.name)
        if uid != self._uid:
            return  # meanwhile, another ModelNode has taken its place
        self._wrote_transition = self._written is None or transition_fields(status) != transition_fields(self._written)
        self._written = status
        self._written_s, self._jitter = self.clock(), self.uniform(0.5, 1.0)

    def _is_due(self, status: ModelNodeStatus) -> bool:
        written = self._written
        if written is None or self._wrote_transition or transition_fields(status) != transition_fields(written):
            return True
        wait_s = self.changed_interval_s if figures_changed(status, written) else self.max_interval_s
        return self.clock() - self._written_s >= wait_s * self._jitter

    def _changed(self, found: dict[str, Any], status: ModelNodeStatus, uid: str) -> dict[str, Any] | None:
        """Return the object with the new status; None if it is another one or is already up to date."""
        spec = msgspec.convert(found.get("spec") or {}, ModelNodeSpec)
        if found["metadata"]["uid"] != uid or spec.node_uid != status.node_uid:
            return None
        before = msgspec.convert(found.get("status") or {}, ModelNodeStatus)
        wanted = with_transition_times(fit_size(status), before, self.now())
        self._pause_s = len(msgspec.json.encode(wanted)) / _BYTES_S
        return None if wanted == before else found | {"status": msgspec.to_builtins(wanted)}
