"""The device plugins of an agent: polled together, and left out while they fail or cannot start.

They are Python entry points, not servers of kubelet's device plugin API.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from agent.devices.guarded_plugin import DevicePluginError, GuardedPlugin
from agent.devices.loading import LoadedDevices, start_plugins
from shared.backoff import Backoff
from shared.devices.info import NodeInfo

RESTART = Backoff(first_s=60, cap_s=900)


@dataclass(frozen=True, slots=True)
class Answers:
    """The offers by plugin name, and the reasons why others are left out, by name or label."""

    offers: Mapping[str, NodeInfo] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)


class PluginSet:
    """Polls the plugins one after another. Its methods block; call them from one thread at a time."""

    def __init__(
        self, plugins: Sequence[GuardedPlugin], clock: Callable[[], float], backoff: Backoff = RESTART
    ) -> None:
        self._started: list[GuardedPlugin] = []
        self._waiting = list(plugins)
        self._clock, self._backoff = clock, backoff
        self._failures: dict[str, str] = {}  # errors of plugins that did not start
        self._attempts: dict[str, int] = {}
        self._due_s: dict[str, float] = {}

    def ask(self, node_name: str) -> Answers:
        """Start any plugins that are due, and return each plugin's current offer."""
        loaded = self.start()
        offers: dict[str, NodeInfo] = {}
        failures = dict(loaded.failures)
        for plugin in loaded.plugins:
            try:
                offers[plugin.name] = plugin.node_info(node_name)
            except DevicePluginError as error:
                failures[plugin.name] = str(error)
        return Answers(offers, failures)

    def start(self) -> LoadedDevices:
        """Start any plugins that are due; return all started plugins, and why the others have not started."""
        due = [plugin for plugin in self._waiting if self._due_s.get(plugin.label, 0.0) <= self._clock()]
        loaded = start_plugins(due, [plugin.name for plugin in self._started])
        self._started += loaded.plugins
        self._waiting = [plugin for plugin in self._waiting if plugin not in loaded.plugins]
        for plugin in due:
            self._failures.pop(plugin.label, None)
        for label, reason in loaded.failures.items():
            attempts = self._attempts[label] = self._attempts.get(label, 0) + 1
            self._failures[label] = reason
            self._due_s[label] = self._clock() + self._backoff.delay_s(attempts)
        return LoadedDevices(tuple(self._started), dict(self._failures))
