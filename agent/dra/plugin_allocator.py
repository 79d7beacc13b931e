"""Asks the installed device plugins what a container needs for its allocated devices."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from agent.devices.allocation import DeviceAllocation
from agent.devices.example import NAME as EXAMPLE
from agent.devices.example import ExampleDevices
from agent.devices.guarded_plugin import DEFAULT_TIMEOUT_S, DevicePluginError, GuardedPlugin
from agent.devices.loading import LoadedDevices, installed_plugins
from agent.devices.models_plugin import is_offered_by_models
from agent.devices.plugin_set import PluginSet
from agent.dra.cdi_edits import PluginEdits
from agent.dra.decide import AllocateRequest
from agent.dra.errors import PrepareRefused
from shared.backoff import Backoff
from shared.daemon_thread import run_in_daemon_thread

_LOG: structlog.stdlib.BoundLogger = structlog.get_logger()
_RETRY = Backoff(first_s=60, cap_s=60)
_ANY_PREFIX = ("",)  # the agent checks the names of extended resources, which the driver does not use


def device_plugins(example: Path | None = None, timeout_s: float = DEFAULT_TIMEOUT_S) -> list[GuardedPlugin]:
    """Return the installed plugins, plus the built-in `example` if there is a file of example devices."""
    built_in = [GuardedPlugin(EXAMPLE, lambda: ExampleDevices(example), timeout_s, _ANY_PREFIX)] if example else []
    return [*built_in, *installed_plugins(timeout_s=timeout_s, prefixes=_ANY_PREFIX)]


@dataclass(slots=True)
class PluginAllocator:
    """The device plugins of this node, started on first use; those that failed to start are retried every minute."""

    installed: Callable[[], Sequence[GuardedPlugin]] = device_plugins
    retry: Backoff = _RETRY
    _plugins: PluginSet | None = field(default=None, init=False)
    _loaded: LoadedDevices | None = field(default=None, init=False)
    _starting: asyncio.Task[LoadedDevices] | None = field(default=None, init=False)

    async def allocate(self, request: AllocateRequest) -> PluginEdits:
        """Return everything that the plugins add for a container.

        Raises PrepareRefused if a plugin that failed or did not start may offer some of the devices, because a
        container must not start with only some of them.
        """
        loaded = await self._start_due()
        answers: dict[GuardedPlugin, DeviceAllocation] = {}
        failures = dict(loaded.failures)
        for plugin in loaded.plugins:
            try:
                answers[plugin] = await run_in_daemon_thread(plugin.allocate, request.pod_info, request.container_info)
            except DevicePluginError as error:
                failures[plugin.name] = str(error)
        if failures:
            await run_in_daemon_thread(_check_offered, LoadedDevices(tuple(answers), failures), request)
        return _merged(list(answers.values()), request.container)

    async def _start_due(self) -> LoadedDevices:
        """Start the plugins that are due. If that exceeds a claim's deadline, the next claim waits for the rest."""
        if self._starting is None or self._starting.done():
            self._starting = asyncio.create_task(run_in_daemon_thread(self._start))
        return await asyncio.shield(self._starting)

    def _start(self) -> LoadedDevices:
        if self._plugins is None:
            self._plugins = PluginSet(self.installed(), time.monotonic, self.retry)
        before, self._loaded = self._loaded, self._plugins.start()
        if self._loaded != before:
            started = [plugin.name for plugin in self._loaded.plugins]
            _LOG.info("device_plugins_started", plugins=started, failures=self._loaded.failures)
        return self._loaded


def _check_offered(loaded: LoadedDevices, request: AllocateRequest) -> None:
    """Raise PrepareRefused for allocated devices that no plugin which answered offers: another may offer them."""
    failures, offered = dict(loaded.failures), set[str]()
    for plugin in loaded.plugins:
        try:
            info = plugin.node_info(request.pod_info.node_name)
        except DevicePluginError as error:
            failures[plugin.name] = str(error)
        else:
            offered |= info.capacity.keys() | info.allocatable.keys()
    allocated = {name for name in request.container_info.allocate_from.values() if not is_offered_by_models(name)}
    if missing := sorted(allocated - offered):
        reasons = "; ".join(f"{name}: {reason}" for name, reason in sorted(failures.items()))
        raise PrepareRefused(
            f"container {request.container} got {', '.join(missing)}, which no running device plugin offers; some "
            f"plugins failed: {reasons}"
        )


def _merged(answers: Sequence[DeviceAllocation], container: str) -> PluginEdits:
    """Merge all answers; every mount becomes read-only. Raises PrepareRefused if two contradict each other."""
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
