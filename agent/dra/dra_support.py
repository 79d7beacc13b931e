"""Waits until both the API server and this node's runtime support devices."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import structlog

from agent.dra.runtimes import cdi_problem, needs_cdi_switched_on
from agent.dra.slices import PoolOwner
from shared.api.meta import ApiStruct
from shared.dra import RESOURCES
from shared.kube.collection import decode
from shared.kube.errors import KubeError, NotFound
from shared.kube.objects import Object
from shared.kube.transport import Kube

_LOG: structlog.stdlib.BoundLogger = structlog.get_logger()
_NOT_SERVED = (
    "the API server does not serve resource.k8s.io/v1, which devices need: upgrade to Kubernetes 1.34 or newer, or set "
    "dra.enabled to false"
)


class _NodeInfo(ApiStruct, frozen=True, kw_only=True):
    """The versions that kubelet reports."""

    container_runtime_version: str = ""


class _NodeStatus(ApiStruct, frozen=True, kw_only=True):
    """The part of the status with the versions."""

    node_info: _NodeInfo = _NodeInfo()


class _RuntimeNode(Object, frozen=True, kw_only=True):
    """A Node with the version of its container runtime."""

    status: _NodeStatus = _NodeStatus()


@dataclass(slots=True)
class DraSupport:
    """Delays the driver while its devices could not work, and reports why.

    `report` is called with each new problem, and with an empty string once it is solved.
    """

    kube: Kube
    node_name: str
    report: Callable[[str], Awaitable[None]]
    pause_s: float = 30
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    _last: str = field(default="", init=False)

    async def wait(self) -> PoolOwner:
        """Return the Node once the API server serves resource claims and the runtime passes devices to containers."""
        while True:
            try:
                owner, problem = await self._check()
            except KubeError as error:
                owner, problem = None, str(error)
            if problem != self._last:
                self._last = problem
                await self.report(problem)
            if owner is not None and not problem:
                return owner
            await self.sleep(self.pause_s)

    async def _check(self) -> tuple[PoolOwner | None, str]:
        try:
            await self.kube.request("GET", RESOURCES)
        except NotFound:
            return None, _NOT_SERVED
        node = decode(await self.kube.request("GET", f"/api/v1/nodes/{self.node_name}"), _RuntimeNode)
        runtime = node.status.node_info.container_runtime_version
        if needs_cdi_switched_on(runtime):
            _LOG.warning("cdi_may_be_off", runtime=runtime, action="set enable_cdi = true in containerd's CRI plugin")
        return PoolOwner(self.node_name, node.metadata.uid), cdi_problem(runtime)
