"""Scheduler plugins from other distributions: an entry point of the group `larder.schedulers` for each.

The entry point loads a class or function that takes nothing and returns a `controller.devices.plugin.DeviceScheduler`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points

from controller.devices.plugin import DeviceScheduler

GROUP = "larder.schedulers"
_METHODS = ("add_node", "remove_node", "pod_fits_device", "pod_allocate", "take_pod_resources", "return_pod_resources")


@dataclass(frozen=True)
class LoadedSchedulers:
    """The plugins that work, and for each other the reason why it was left out, by the name of its entry point."""

    plugins: tuple[DeviceScheduler, ...]
    failures: dict[str, str]


def load_schedulers(points: Iterable[EntryPoint] | None = None) -> LoadedSchedulers:
    """Load all plugins, those that are installed unless others are given; one that fails is left out."""
    plugins: dict[str, DeviceScheduler] = {}
    failures: dict[str, str] = {}
    for point in sorted(entry_points(group=GROUP) if points is None else points, key=lambda point: point.name):
        try:
            plugin = point.load()()
            _check(plugin)
            if plugin.name in plugins:
                raise ValueError(f"another plugin is named {plugin.name!r} too; uninstall one of them")  # noqa: TRY301 - reported like any other failure
            plugins[plugin.name] = plugin
        except Exception as error:  # noqa: BLE001 - somebody else's code; the others go on
            failures[point.name] = f"{point.value} is left out: {type(error).__name__}: {error}"[:500]
    return LoadedSchedulers(tuple(plugins.values()), failures)


def _check(plugin: object) -> None:
    missing = [name for name in _METHODS if not callable(getattr(plugin, name, None))]
    if missing:
        raise TypeError(f"a {type(plugin).__name__} is not a scheduler plugin: it has no {', '.join(missing)}")
    for name, kind in (("name", str), ("using_group_scheduler", bool)):
        if not isinstance(getattr(plugin, name, None), kind):
            raise TypeError(f"the attribute {name} is not a {kind.__name__}")
