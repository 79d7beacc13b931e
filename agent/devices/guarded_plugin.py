"""Calls a device plugin in a separate thread, with a deadline, and validates its answer.

Plugins are third-party code. A plugin that hangs occupies one thread, and is not called again until it returns.
"""

import re
from collections.abc import Callable, Collection
from threading import Lock
from typing import TypeVar

from agent.devices.allocation import DeviceAllocation, allocation_of
from agent.devices.plugin import DevicePlugin
from agent.devices.validate_offer import DEFAULT_PREFIX, offer_of
from shared.daemon_thread import start_daemon_thread
from shared.devices.info import ContainerInfo, NodeInfo, PodInfo, copy_container, copy_pod
from shared.plugin_loading import LONGEST_REASON, reason_of, require

DEFAULT_TIMEOUT_S = 10.0
T = TypeVar("T")
_METHODS = ("new", "start", "update_node_info", "allocate")
_NAME = re.compile(r"[A-Za-z0-9._-]{1,63}")


class DevicePluginError(Exception):
    """A plugin failed: it raised, exceeded its deadline, or returned invalid data. The message says which."""


class GuardedPlugin:
    """One device plugin. All methods block until the plugin answers or the deadline has passed.

    Args:
        label: The name of the entry point, used until the plugin is loaded.
        make: Creates the plugin.
        timeout_s: The deadline of each call in seconds.
        prefixes: Allowed prefixes for the names of its extended resources.
    """

    def __init__(
        self,
        label: str,
        make: Callable[[], object],
        timeout_s: float = DEFAULT_TIMEOUT_S,
        prefixes: Collection[str] = (DEFAULT_PREFIX,),
    ) -> None:
        self.label, self._make, self._timeout_s, self._prefixes = label, make, timeout_s, prefixes
        self._name = ""
        self._plugin: DevicePlugin | None = None
        self._lock = Lock()  # held by the thread of the running call
        self._overdue = ""  # the method that exceeded its deadline, while it runs

    @property
    def name(self) -> str:
        """The plugin's own name, or the label until it is loaded."""
        return self._name or self.label

    def load(self) -> None:
        """Load the plugin and call `new`. Raises DevicePluginError."""

        def load() -> tuple[str, DevicePlugin]:
            plugin = self._make()
            require(plugin, "device plugin", _METHODS, {"name": str})
            name = plugin.name  # type: ignore[attr-defined]
            if not _NAME.fullmatch(name):
                raise ValueError(f"the name {name!r:.100} must have 1 to 63 characters from A-Z a-z 0-9 . _ -")
            plugin.new()  # type: ignore[attr-defined]
            return name, plugin  # type: ignore[return-value]

        self._name, self._plugin = self._call("load", load)

    def start(self) -> None:
        """Call `start`. Raises DevicePluginError."""
        self._call("start", self._loaded().start)

    def node_info(self, node_name: str) -> NodeInfo:
        """Return the plugin's current devices. Raises DevicePluginError."""
        plugin = self._loaded()

        def update() -> NodeInfo:
            filled = NodeInfo(node_name)
            plugin.update_node_info(filled)
            return offer_of(filled, node_name, self._prefixes)

        return self._call("update_node_info", update)

    def allocate(self, pod_info: PodInfo, container_info: ContainerInfo) -> DeviceAllocation:
        """Return what a container needs to use its devices. Raises DevicePluginError."""
        plugin, pod, container = self._loaded(), copy_pod(pod_info), copy_container(container_info)
        return self._call("allocate", lambda: allocation_of(plugin.allocate(pod, container)))

    def _loaded(self) -> DevicePlugin:
        if self._plugin is None:
            raise DevicePluginError(f"device plugin {self.label} is not loaded")
        return self._plugin

    def _call(self, method: str, work: Callable[[], T]) -> T:
        """Run one call in a thread and return its result; a plugin never has more than one thread."""
        if not self._lock.acquire(timeout=0 if self._overdue else self._timeout_s):
            raise self._error(method, f"{self._overdue or 'another call'} has not returned yet")

        def run() -> T:
            try:
                return work()
            finally:
                self._overdue = ""
                self._lock.release()

        try:
            future = start_daemon_thread(run, f"larder-device-{self.label}"[:64])
        except RuntimeError as error:  # the process may have no more threads
            self._lock.release()
            raise self._error(method, reason_of(error)) from None
        try:
            failure = future.exception(self._timeout_s)
        except TimeoutError:
            self._overdue = method if self._lock.locked() else ""
            raise self._error(method, f"did not return within {self._timeout_s:g} s") from None
        if failure is not None:
            raise self._error(method, reason_of(failure)) from None
        return future.result()

    def _error(self, method: str, reason: str) -> DevicePluginError:
        return DevicePluginError(f"device plugin {self.name}: {method}: {reason}"[:LONGEST_REASON])
