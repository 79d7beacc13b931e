"""Loads and starts the installed device plugins, each an entry point of the group `larder.devices`."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from importlib.metadata import EntryPoint

from agent.devices.guarded_plugin import DEFAULT_TIMEOUT_S, DevicePluginError, GuardedPlugin
from agent.devices.plugin import GROUP
from agent.devices.validate_offer import DEFAULT_PREFIX
from shared.plugin_loading import in_order, installed_points, name_twice, reason_of


@dataclass(frozen=True)
class LoadedDevices:
    """The plugins that started, and the errors of the others, by the name of the entry point."""

    plugins: tuple[GuardedPlugin, ...]
    failures: dict[str, str]


def installed_plugins(
    points: Iterable[EntryPoint] | None = None,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    prefixes: Collection[str] = (DEFAULT_PREFIX,),
) -> list[GuardedPlugin]:
    """Return the given plugins, by default all that are installed, sorted by name and not loaded yet."""
    found = installed_points(GROUP) if points is None else in_order(points)
    return [GuardedPlugin(point.name, _maker(point), timeout_s, prefixes) for point in found]


def start_plugins(plugins: Iterable[GuardedPlugin], taken: Collection[str] = ()) -> LoadedDevices:
    """Load and start plugins; leave out those that fail or whose name is taken. May block for all deadlines in turn."""
    started: dict[str, GuardedPlugin] = {}
    failures: dict[str, str] = {}
    for plugin in plugins:
        try:
            plugin.load()
            if plugin.name in started or plugin.name in taken:
                failures[plugin.label] = reason_of(name_twice(plugin.name))
                continue
            plugin.start()
        except DevicePluginError as error:
            failures[plugin.label] = str(error)
        else:
            started[plugin.name] = plugin
    return LoadedDevices(tuple(started.values()), failures)


def _maker(point: EntryPoint) -> Callable[[], object]:
    def make() -> object:
        return point.load()()

    return make
