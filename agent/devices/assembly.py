"""Builds the advertiser from the agent's settings, and connects it to the agent's loop."""

from collections import Counter
from dataclasses import dataclass

from agent.devices.advertiser import Advertiser
from agent.devices.example import NAME as EXAMPLE
from agent.devices.example import ExampleDevices
from agent.devices.guarded_plugin import GuardedPlugin
from agent.devices.loading import installed_plugins
from agent.devices.metrics import DeviceCollector
from agent.devices.models_plugin import NAME as MODELS
from agent.devices.models_plugin import ModelDevices
from agent.devices.node_devices import DevicesOfNode
from agent.devices.plugin_set import RESTART, PluginSet
from agent.devices.report import device_condition, health_note
from agent.devices.store_contents import LatestContents
from agent.reconciler.loop import Reconciler
from agent.settings import AgentSettings
from shared.kube.transport import Kube


@dataclass(frozen=True, slots=True)
class Devices:
    """One agent's device support: the advertiser and its metrics."""

    advertiser: Advertiser
    collector: DeviceCollector

    async def run(self) -> None:
        """Advertise until cancelled."""
        await self.advertiser.run()

    def health_note(self) -> str:
        """Return a line for the health check; empty if no plugin is left out."""
        return health_note(self.advertiser.report)


def attach_devices(kube: Kube, settings: AgentSettings, reconciler: Reconciler) -> Devices:
    """Connect device support to the agent's loop, which reports the store's contents and gets another condition."""
    contents = LatestContents()
    plugins = [] if settings.withdraw_devices else _plugins(settings, contents)
    advertiser = Advertiser(
        node=DevicesOfNode(kube, settings.node_name),
        node_name=settings.node_name,
        plugins=PluginSet(plugins, reconciler.clock, RESTART),
        contents=contents,
        prefixes=settings.prefixes,
        interval_s=settings.device_seconds,
        on_report=reconciler.wake,
        writes=Counter(),
    )
    reconciler.after_pass = contents.note
    reconciler.other_conditions = lambda: [device_condition(advertiser.report)]
    return Devices(advertiser, DeviceCollector(lambda: advertiser.report, advertiser.writes))


def _plugins(settings: AgentSettings, contents: LatestContents) -> list[GuardedPlugin]:
    timeout_s, prefixes = settings.device_timeout_seconds, settings.prefixes
    found = [GuardedPlugin(MODELS, lambda: ModelDevices(lambda: contents.value), timeout_s, prefixes)]
    if path := settings.example_devices:
        found.append(GuardedPlugin(EXAMPLE, lambda: ExampleDevices(path), timeout_s, prefixes))
    return [*found, *installed_plugins(timeout_s=timeout_s, prefixes=prefixes)]
