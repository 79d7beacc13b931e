"""Removes entries' files, after a live read from the API server confirms that they must go."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass

import structlog

from agent.controller_client import ControllerClient
from agent.reconciler.actions import Remove
from agent.reconciler.activity import Activity, RemovalProgress
from agent.reconciler.downloads import Downloads
from agent.reconciler.failures import FailureRecorder
from agent.reconciler.observation import Key, Removed
from agent.reconciler.own_node import OwnNode
from agent.reconciler.state_cache import StateCache, content_sizes
from agent.store.download_plan import DownloadPlan
from agent.store.store import Store
from shared.api.model_node import PATH, Entry, EntryState, ModelNode
from shared.errors import LarderError, NotGranted
from shared.kube.collection import get_object
from shared.names import snapshot_label

_LOG: structlog.stdlib.BoundLogger = structlog.get_logger()


async def confirm_removal(node: OwnNode, node_uid: str, action: Remove) -> None:
    """Read the ModelNode and the Node live and check that the removal is still wanted.

    Raises:
        NotGranted: Either of them has changed since the decision.
        KubeError: One of them could not be read.
    """
    live = await get_object(node.kube, f"{PATH}/{node.name}", ModelNode)
    if live is None or not still_wants_removal(live, node_uid, action):
        raise NotGranted("the ModelNode has changed since the removal was decided; nothing was removed")
    current = await node.read()
    if current.uid != node_uid or snapshot_label(*action.entry.key) in current.labels:
        raise NotGranted("the Node was replaced or still has the snapshot's label; nothing was removed")


def still_wants_removal(live: ModelNode, node_uid: str, action: Remove) -> bool:
    """Return whether this is the ModelNode that was acted on, for this node, and still requests Absent."""
    unchanged = live.metadata.uid == action.uid and live.metadata.generation == action.generation
    for_this_node = bool(node_uid) and live.spec.node_uid == node_uid
    states = [e.state for e in live.spec.entries if e.key == action.entry.key]
    return unchanged and for_this_node and states == [EntryState.ABSENT]


@dataclass(frozen=True, slots=True)
class Removals:
    """Carries out removals; `request_node_read` is called after one fails, since the Node may have been replaced."""

    cache: StateCache
    store: Store
    node: OwnNode
    api: ControllerClient
    activity: Activity
    failures: FailureRecorder
    downloads: Downloads
    threads: Executor
    clock: Callable[[], float]
    request_node_read: Callable[[], None]

    async def remove(self, action: Remove) -> None:
        """Remove an entry's snapshot and what an unfinished download left of it."""
        entry, log = action.entry, _LOG.bind(model=action.entry.id, revision=action.entry.revision)
        loop, sizes = asyncio.get_running_loop(), list[int]()

        def on_freed(size_bytes: int) -> None:
            sizes.append(size_bytes)
            loop.call_soon_threadsafe(self.activity.count_freed, entry.key, size_bytes)

        try:
            await confirm_removal(self.node, self.cache.node.uid, action)
            self.cache.disk_changes += 1
            self.activity.removals[entry.key] = RemovalProgress(self._size_bytes(entry.key))
            log.info("removal_started")
            await loop.run_in_executor(self.threads, self.store.snapshots.remove, entry.id, entry.revision, on_freed)
            await self._discard_unfinished(entry)
        except LarderError as error:
            self.request_node_read()
            self.cache.works.pop(entry.key, None)
            self.failures.record(entry, error, transient=True)
        else:
            self.cache.set_held({key: kept for key, kept in self.cache.held.items() if key != entry.key})
            self.cache.works[entry.key] = Removed()
            self.activity.removed += 1
            self.cache.retry_shortages(self.clock())
            log.info("snapshot_removed", freed_bytes=sum(sizes))
        finally:
            self.activity.removals.pop(entry.key, None)
            self.cache.disk_changes += 1

    def _size_bytes(self, key: Key) -> int:
        """Return a snapshot's size in bytes, each content counted once; 0 if there is none."""
        held = self.cache.held.get(key)
        return sum(content_sizes([held]).values()) if held else 0

    async def _discard_unfinished(self, entry: Entry) -> None:
        """Drop what an unfinished download left, unless a running download shares any of it."""
        plan = self.cache.drop_plan(entry.key) or await self._plan_of_earlier_agent(entry)
        if plan is None:
            return
        keys = set(plan.keys.values())
        if all(keys.isdisjoint(running.keys.values()) for running in self.downloads.plans()):
            await asyncio.get_running_loop().run_in_executor(self.threads, self.store.unfinished.discard, plan)

    async def _plan_of_earlier_agent(self, entry: Entry) -> DownloadPlan | None:
        """Return the plan of an entry that this agent never prepared, but an earlier one may have begun to download."""
        loop, known = asyncio.get_running_loop(), list(self.cache.plans.values())
        if not entry.manifest or not await loop.run_in_executor(self.threads, self.store.unfinished.any_outside, known):
            return None
        try:
            return DownloadPlan(await self.api.manifest(entry.manifest))
        except LarderError as error:  # they are dropped once they have been idle for a week
            _LOG.warning("unfinished_files_left", model=entry.id, reason=error.reason, message=str(error))
            return None
