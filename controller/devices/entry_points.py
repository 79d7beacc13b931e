"""Scheduler plugins from other distributions, each an entry point of the group `larder.schedulers`.

The entry point names a class or function that takes no arguments and returns a
`controller.devices.plugin.DeviceScheduler`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import EntryPoint

from controller.devices.plugin import DeviceScheduler
from shared.plugin_loading import LONGEST_REASON, in_order, installed_points, name_twice, reason_of, require

GROUP = "larder.schedulers"
_METHODS = ("add_node", "remove_node", "pod_fits_device", "pod_allocate", "take_pod_resources", "return_pod_resources")
_ATTRIBUTES = {"name": str, "using_group_scheduler": bool}


@dataclass(frozen=True)
class LoadedSchedulers:
    """The plugins that loaded, and the errors of the others, by the name of the entry point."""

    plugins: tuple[DeviceScheduler, ...]
    failures: dict[str, str]


def load_schedulers(points: Iterable[EntryPoint] | None = None) -> LoadedSchedulers:
    """Load the given plugins, by default all that are installed; leave out any that fails."""
    plugins: dict[str, DeviceScheduler] = {}
    failures: dict[str, str] = {}
    for point in installed_points(GROUP) if points is None else in_order(points):
        try:
            plugin = point.load()()
            require(plugin, "scheduler plugin", _METHODS, _ATTRIBUTES)
            if plugin.name in plugins:
                raise name_twice(plugin.name)  # noqa: TRY301 - reported like any other failure
            plugins[plugin.name] = plugin
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - third-party code: also SystemExit, or a panic in Rust
            failures[point.name] = f"{point.value} is left out: {reason_of(error)}"[:LONGEST_REASON]
    return LoadedSchedulers(tuple(plugins.values()), failures)
