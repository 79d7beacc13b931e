"""Tracks which scheduler plugin is running and since when, so that one that hangs can be named."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from controller.devices.plugin import DeviceFit, DeviceScheduler
from shared.devices.info import NodeInfo, PodInfo
from shared.plugin_loading import reason_of

T = TypeVar("T")


class Abandoned(BaseException):
    """Ends an abandoned thread; neither plugins nor the chain catch it."""


class PluginStopped(Exception):
    """A plugin raised an exception that would end the thread; it counts as an ordinary failure."""


class RunningCall(NamedTuple):
    """The plugin that is running, and when it was called, in seconds of the clock."""

    plugin: str
    began_s: float


class PluginWatchdog:
    """Records the plugin that a worker thread is calling, which the event loop reads.

    `failed` is called in the thread, with the plugin and the error of a failed `notify`.
    """

    def __init__(self, clock: Callable[[], float], failed: Callable[[str, str], None] = lambda *_: None) -> None:
        self._clock, self._failed = clock, failed
        self.running: RunningCall | None = None
        self.abandoned = False

    def call(self, plugin: str, work: Callable[[], T]) -> T:
        """Return the result of one call. Raises Abandoned if the thread was abandoned meanwhile."""
        self.running = RunningCall(plugin, self._clock())
        try:
            return work()
        except Exception:
            raise
        except BaseException as error:  # SystemExit, or a panic in a plugin's Rust code
            raise PluginStopped(reason_of(error)) from error
        finally:
            self.running = None
            if self.abandoned:
                raise Abandoned

    def notify(self, plugin: str, method: str, work: Callable[[], None]) -> None:
        """Make a call that returns nothing; report an error instead of raising it."""
        try:
            self.call(plugin, work)
        except Exception as error:  # noqa: BLE001 - third-party code
            self._failed(plugin, f"{method} failed: {reason_of(error)}")


class WatchedPlugin:
    """A plugin whose calls are watched."""

    def __init__(self, plugin: DeviceScheduler, watch: PluginWatchdog) -> None:
        self._plugin, self._watch = plugin, watch
        self.name, self.using_group_scheduler = plugin.name, plugin.using_group_scheduler

    def add_node(self, node_name: str, node_info: NodeInfo) -> None:
        """Add a node, or replace what is known about it."""
        self._watch.call(self.name, lambda: self._plugin.add_node(node_name, node_info))

    def remove_node(self, node_name: str) -> None:
        """Forget a node."""
        self._watch.notify(self.name, "remove_node", lambda: self._plugin.remove_node(node_name))

    def pod_fits_device(self, node_info: NodeInfo, pod_info: PodInfo, fill_allocate_from: bool) -> DeviceFit:  # noqa: FBT001 - the interface of KubeDevice
        """Return whether a pod fits, with reasons as strings: converting them is plugin code too, and may hang."""

        def ask() -> DeviceFit:
            fits, reasons, score = self._plugin.pod_fits_device(
                node_info, pod_info, fill_allocate_from=fill_allocate_from
            )
            return DeviceFit(bool(fits), tuple(map(str, reasons)), score)

        return self._watch.call(self.name, ask)

    def pod_allocate(self, node_info: NodeInfo, pod_info: PodInfo) -> None:
        """Fill the allocation."""
        self._watch.call(self.name, lambda: self._plugin.pod_allocate(node_info, pod_info))

    def take_pod_resources(self, node_info: NodeInfo, pod_info: PodInfo) -> None:
        """Add to `used`."""
        self._watch.notify(
            self.name, "take_pod_resources", lambda: self._plugin.take_pod_resources(node_info, pod_info)
        )

    def return_pod_resources(self, node_info: NodeInfo, pod_info: PodInfo) -> None:
        """Subtract from `used`."""
        self._watch.notify(
            self.name, "return_pod_resources", lambda: self._plugin.return_pod_resources(node_info, pod_info)
        )


def watched(plugins: Sequence[DeviceScheduler], watch: PluginWatchdog) -> list[WatchedPlugin]:
    """Wrap the plugins, all tracked by one watch."""
    return [WatchedPlugin(plugin, watch) for plugin in plugins]
