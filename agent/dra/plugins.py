"""Asks the installed device plugins what a container needs for its allocated devices."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from agent.devices.allocation import DeviceAllocation
from agent.devices.example import NAME as EXAMPLE
from agent.devices.example import ExampleDevices
from agent.devices.guarded import DevicePluginError, GuardedPlugin
from agent.devices.loading import LoadedDevices, installed_plugins, start_plugins
from agent.dra.decide import AllocateRequest
from agent.dra.edits import PluginEdits
from agent.dra.errors import PrepareRefused
from shared.daemon_thread import run_in_daemon_thread

_LOG: structlog.stdlib.BoundLogger = structlog.get_logger()
_RETRY_S = 60.0


def device_plugins(example: Path | None = None) -> list[GuardedPlugin]:
    """Return the installed plugins, plus the built-in `example` if there is a file of example devices."""
    built_in = [GuardedPlugin(EXAMPLE, lambda: ExampleDevices(example))] if example else []
    return [*built_in, *installed_plugins()]


@dataclass(slots=True)
class NodePlugins:
    """The device plugins of this node, started on first use; failed ones are retried every minute."""

    installed: Callable[[], Sequence[GuardedPlugin]] = device_plugins
    retry_s: float = _RETRY_S
    _loaded: LoadedDevices | None = field(default=None, init=False)
    _due_s: float = field(default=0.0, init=False)
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    async def allocate(self, request: AllocateRequest) -> PluginEdits:
        """Return everything that the plugins add for a container.

        Raises PrepareRefused if a plugin fails or no running plugin knows the devices, because a container must not
        start without them.
        """
        loaded = await self._plugins()
        answers = [await self._allocate(plugin, request) for plugin in loaded.plugins]
        edits = _together(answers, request.container)
        if edits == PluginEdits() and loaded.failures:
            reasons = "; ".join(f"{name}: {reason}" for name, reason in sorted(loaded.failures.items()))
            raise PrepareRefused(f"no device plugin knows the devices of {request.container}; some failed: {reasons}")
        return edits

    async def _plugins(self) -> LoadedDevices:
        async with self._turn:
            now_s = asyncio.get_running_loop().time()
            if self._loaded is None or (self._loaded.failures and now_s >= self._due_s):
                self._loaded = await run_in_daemon_thread(self._start)
                self._due_s = now_s + self.retry_s
                _LOG.info("device_plugins_started", plugins=[plugin.name for plugin in self._loaded.plugins])
            return self._loaded

    def _start(self) -> LoadedDevices:
        return start_plugins(self.installed())

    async def _allocate(self, plugin: GuardedPlugin, request: AllocateRequest) -> DeviceAllocation:
        try:
            return await run_in_daemon_thread(plugin.allocate, request.pod_info, request.container_info)
        except DevicePluginError as error:
            raise PrepareRefused(str(error)) from error


def _together(answers: Sequence[DeviceAllocation], container: str) -> PluginEdits:
    """Merge all answers, with read-only mounts. Raises PrepareRefused if two contradict each other."""
    mounts: dict[str, str] = {}
    env: dict[str, str] = {}
    devices: dict[str, None] = {}
    for answer in answers:
        for mount in answer.mounts:
            if mounts.setdefault(mount.container_path, mount.host_path) != mount.host_path:
                raise PrepareRefused(f"two device plugins mount {mount.container_path} in container {container}")
        for name, value in answer.envs.items():
            if env.setdefault(name, value) != value:
                raise PrepareRefused(f"two device plugins set {name} in container {container}")
        devices |= dict.fromkeys(answer.devices)
    return PluginEdits(mounts, tuple(devices), env)
