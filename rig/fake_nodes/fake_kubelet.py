"""Fake kubelets: renew the Lease and Ready condition of nodes, and run the pods bound to them."""

import asyncio
import contextlib
import datetime as dt
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import httpx

from rig.fake_nodes import manifests
from rig.fake_nodes.decide import BoundPod, Leave, PatchPodStatus, Release, decide, probe_port
from rig.fake_nodes.manifests import LEASES, NodeSpec
from shared.kube.cache import Cache
from shared.kube.edit import create_if_missing, delete_if_present, merge_patch
from shared.kube.errors import Conflict, KubeError, NotFound
from shared.kube.objects import Key, Object
from shared.kube.reflector import Reflector
from shared.kube.transport import Kube
from shared.kube.work_queue import WorkQueue

NODES = "/api/v1/nodes"
PODS = "/api/v1/pods"

_WORKERS = 4
_PROBE_TIMEOUT_S = 5.0
_log = logging.getLogger(__name__)


class HeartbeatNode(Object, frozen=True, kw_only=True):
    """The status of a Node, as far as its heartbeat needs it."""

    status: dict[str, Any] = {}


@dataclass
class FakeKubelet:
    """Keeps Node objects Ready and their pods progressing while `run` runs.

    A node can be added, lost (its heartbeat stops and its pods stay as they are), revived and removed.
    """

    kube: Kube
    beat_s: float = 2.0
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    now: Callable[[], dt.datetime] = lambda: dt.datetime.now(dt.UTC)
    _known: dict[str, NodeSpec] = field(default_factory=dict, init=False)
    _alive: set[str] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        self._nodes: Cache[HeartbeatNode] = Cache(self._node_changed)
        self._pods: Cache[BoundPod] = Cache(self._pod_changed)
        self._queue: WorkQueue[Key] = WorkQueue(_log_retry)

    async def run(self) -> None:
        """Send heartbeats and watch nodes and pods, until cancelled."""
        node_source = Reflector(self.kube, NODES, HeartbeatNode, self._nodes, _log_failure)
        pod_source = Reflector(self.kube, PODS, BoundPod, self._pods, _log_failure)
        async with asyncio.TaskGroup() as tasks, httpx.AsyncClient(trust_env=False, timeout=_PROBE_TIMEOUT_S) as http:
            tasks.create_task(node_source.run())
            tasks.create_task(pod_source.run())
            tasks.create_task(self._beat())
            await self._queue.serve(_WORKERS, lambda key: self._serve(key, http))

    async def add(self, spec: NodeSpec) -> None:
        """Create the Node, or label an existing one, and start its heartbeat."""
        if not await create_if_missing(self.kube, NODES, manifests.node(spec)):
            await merge_patch(self.kube, f"{NODES}/{spec.name}", manifests.node(spec))
        await create_if_missing(self.kube, LEASES, manifests.lease(spec.name, self.now()))
        self._known[spec.name] = spec
        await self.revive(spec.name)

    def lose(self, name: str) -> None:
        """Stop the heartbeat of a node: Kubernetes will mark it NotReady, and its pods no longer change."""
        self._alive.discard(name)

    async def revive(self, name: str) -> None:
        """Resume the heartbeat of a lost node."""
        self._alive.add(name)
        await self._renew(name)
        await self._report(name, self._conditions(name))
        for pod in self._pods:
            self._pod_changed(None, pod)

    async def remove(self, name: str) -> None:
        """Stop the heartbeat and delete the Node, as for a machine that is scrapped."""
        self.lose(name)
        self._known.pop(name, None)
        await delete_if_present(self.kube, f"{LEASES}/{name}")
        await delete_if_present(self.kube, f"{NODES}/{name}")

    async def _beat(self) -> None:
        while True:
            for name in sorted(self._alive):
                try:
                    await self._renew(name)
                except KubeError as error:
                    _log.warning("the heartbeat of %s failed: %s", name, error)
            await self.sleep(self.beat_s)

    async def _renew(self, name: str) -> None:
        try:
            await merge_patch(self.kube, f"{LEASES}/{name}", manifests.renewal(self.now()))
        except NotFound:
            await create_if_missing(self.kube, LEASES, manifests.lease(name, self.now()))

    async def _report(self, name: str, conditions: list[dict[str, Any]]) -> None:
        patch = manifests.status(self._known[name], conditions, self.now())
        with contextlib.suppress(NotFound):  # deleted meanwhile: a kubelet would not recreate it
            await merge_patch(self.kube, f"{NODES}/{name}/status", patch)

    def _conditions(self, name: str) -> list[dict[str, Any]]:
        seen = self._nodes.get(Key("", name))
        return list(seen.status.get("conditions", [])) if seen else []

    def _node_changed(self, _: HeartbeatNode | None, after: HeartbeatNode | None) -> None:
        if after and after.key.name in self._alive and not manifests.is_ready(self._conditions(after.key.name)):
            self._queue.add(after.key)

    def _pod_changed(self, _: BoundPod | None, after: BoundPod | None) -> None:
        if after and after.node in self._known:
            self._queue.add(after.key)

    async def _serve(self, key: Key, http: httpx.AsyncClient) -> float | None:
        """Advance one node (a key without namespace) or pod; return the seconds until the next check, None for none."""
        if not key.namespace:
            if key.name in self._alive and not manifests.is_ready(self._conditions(key.name)):
                await self._report(key.name, self._conditions(key.name))
            return None
        pod = self._pods.get(key)
        return await self._serve_pod(pod, http) if pod else None

    async def _serve_pod(self, pod: BoundPod, http: httpx.AsyncClient) -> float | None:
        port = probe_port(pod)
        answers = port is None or (pod.node in self._alive and await _answers(http, port))
        path = f"/api/v1/namespaces/{pod.metadata.namespace}/pods/{pod.metadata.name}"
        try:
            match decide(pod, self._alive, self.now(), answers=answers):
                case Release():
                    gone = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod.metadata.uid}}
                    await self.kube.request("DELETE", path, body=gone)
                case PatchPodStatus(patch):
                    await merge_patch(self.kube, f"{path}/status", patch)
                case Leave():
                    pass
        except (NotFound, Conflict):
            return None  # the name belongs to another pod now, which the watch will deliver
        return self.beat_s if port is not None and pod.node in self._alive else None


async def _answers(http: httpx.AsyncClient, port: int) -> bool:
    try:
        return (await http.get(f"http://127.0.0.1:{port}/readyz")).is_success
    except httpx.HTTPError:
        return False


def _log_retry(key: Key, error: Exception, delay_s: float) -> None:
    _log.warning("%s/%s: %s; retrying in %.1f s", key.namespace, key.name, error, delay_s)


def _log_failure(error: Exception, delay_s: float) -> None:
    _log.warning("watching: %s; retrying in %.1f s", error, delay_s)
