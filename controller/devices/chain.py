"""The chain of scheduler plugins, the group scheduler last: no input or output."""

import math
from collections.abc import Sequence
from contextlib import suppress

from controller.devices.allocation_annotation import unreadable
from controller.devices.group_scheduler import DoesNotFit, GroupScheduler
from controller.devices.plugin import DeviceFit, DeviceScheduler
from controller.devices.refusal_reasons import PluginFailure, Reason
from shared.devices.info import NodeInfo, PodInfo
from shared.plugin_loading import reason_of


class PluginChain:
    """Combines all plugins: a pod fits if every plugin accepts it; reasons are concatenated and scores added."""

    def __init__(self, plugins: Sequence[DeviceScheduler], group_scheduler: GroupScheduler) -> None:
        self._plugins: tuple[DeviceScheduler, ...] = (*plugins, group_scheduler)
        self._failures: dict[str, list[Reason]] = {}  # by node, for plugins that failed to add it

    def add_node(self, node_info: NodeInfo) -> None:
        """Pass a new or changed node to all plugins, which may complete its `allocatable`.

        No pod fits on a node that a plugin failed to add.
        """
        self._failures.pop(node_info.name, None)
        for plugin in self._plugins:
            try:
                plugin.add_node(node_info.name, node_info)
            except Exception as error:  # noqa: BLE001 - third-party code; the reason reaches the user
                message = f"add_node failed: {reason_of(error)}"
                self._failures.setdefault(node_info.name, []).extend(_failure(plugin, message).reasons)

    def remove_node(self, node_name: str) -> None:
        """Make all plugins forget a deleted node."""
        self._failures.pop(node_name, None)
        for plugin in self._plugins:
            with suppress(Exception):  # the node is gone, so no error matters
                plugin.remove_node(node_name)

    def fit(self, node_info: NodeInfo, pod_info: PodInfo) -> DeviceFit:
        """Ask all plugins whether a pod fits on a node, filling `allocate_from`.

        A plugin that raises or returns an invalid answer refuses the node. So does an allocation that could not be
        read back.
        """
        reasons = list(self._failures.get(node_info.name, []))
        fits, score = not reasons, 0.0
        for plugin in self._plugins:
            answer = _ask(plugin, node_info, pod_info)
            fits, score = fits and answer.fits, score + answer.score
            reasons += answer.reasons
        if fits and (problem := unreadable(pod_info)):
            fits, reasons = False, [problem]
        return DeviceFit(fits, tuple(reasons), score if fits else 0.0)

    def allocate(self, node_info: NodeInfo, pod_info: PodInfo) -> tuple[Reason, ...]:
        """Have all plugins fill `dev_requests` and `allocate_from` for the chosen node; return any reasons to refuse.

        A plugin that raises anything but DoesNotFit is named in the reason.
        """
        if failures := self._failures.get(node_info.name):
            return tuple(failures)
        for plugin in self._plugins:
            try:
                plugin.pod_allocate(node_info, pod_info)
            except DoesNotFit as error:
                return error.reasons
            except Exception as error:  # noqa: BLE001 - third-party code; the reason reaches the user
                return tuple(_failure(plugin, f"pod_allocate failed: {reason_of(error)}").reasons)
        problem = unreadable(pod_info)
        return (problem,) if problem else ()

    def take(self, node_info: NodeInfo, pod_info: PodInfo) -> None:
        """Have all plugins add a pod's use to `used`."""
        for plugin in self._plugins:
            plugin.take_pod_resources(node_info, pod_info)

    def give_back(self, node_info: NodeInfo, pod_info: PodInfo) -> None:
        """Have all plugins subtract a pod's use from `used`."""
        for plugin in self._plugins:
            plugin.return_pod_resources(node_info, pod_info)


def _ask(plugin: DeviceScheduler, node_info: NodeInfo, pod_info: PodInfo) -> DeviceFit:
    try:
        fits, reasons, score = plugin.pod_fits_device(node_info, pod_info, fill_allocate_from=True)
        if not math.isfinite(score):
            return _failure(plugin, f"pod_fits_device returned the score {score}")
        return DeviceFit(bool(fits), tuple(reasons), float(score))
    except Exception as error:  # noqa: BLE001 - third-party code; the reason reaches the user
        return _failure(plugin, f"pod_fits_device failed: {reason_of(error)}")


def _failure(plugin: DeviceScheduler, message: str) -> DeviceFit:
    return DeviceFit(fits=False, reasons=(PluginFailure(plugin.name, message[:500]),))
