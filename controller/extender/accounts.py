"""Tracks which devices each node has and which pods use them, in memory; for the event loop only."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import structlog

from controller.extender.advertised_devices import advertised_devices
from controller.extender.device_objects import DeviceNode, DevicePod
from controller.extender.requested_devices import allocated_devices
from controller.state.signal import Signal
from shared.devices.annotation import ANNOTATION
from shared.devices.info import NodeInfo, PodInfo

_log = structlog.get_logger("extender")


@dataclass(frozen=True, slots=True, eq=False)
class NodeAccount:
    """An immutable snapshot of one node's devices and the pods that use them.

    `problem` says why the node's annotation cannot be read; such a node counts as having no devices.
    """

    name: str
    uid: str
    advertised: NodeInfo
    problem: str
    pods: Mapping[str, PodInfo]  # by uid


@dataclass(slots=True)
class DeviceAccounts:
    """The accounts of all nodes, updated by two informers and by this replica's bindings in progress."""

    freed: Signal[str] = field(default_factory=Signal, init=False)  # a node with devices that may be free now
    pods_version: int = field(default=0, init=False)  # every pod bound up to this resourceVersion is known
    _nodes: dict[str, NodeAccount] = field(default_factory=dict, init=False)
    _pods: dict[str, dict[str, PodInfo]] = field(default_factory=dict, init=False)  # by node name and pod uid
    _assumed: dict[str, str] = field(default_factory=dict, init=False)  # the node's name by pod uid
    _bound: set[str] = field(default_factory=set, init=False)  # uids of pods that the watch has seen on a node
    _changed: set[str] = field(default_factory=set, init=False)

    def node(self, name: str) -> NodeAccount | None:
        """Return the account of a node, or None if there is no such node."""
        return self._nodes.get(name)

    def __iter__(self) -> Iterator[NodeAccount]:
        return iter(list(self._nodes.values()))

    def changes(self) -> dict[str, NodeAccount | None]:
        """Return the accounts that changed since the last call, by node name; None for a deleted node."""
        changed = {name: self._nodes.get(name) for name in self._changed}
        self._changed = set()
        return changed

    def mark_all_changed(self) -> None:
        """Make the next `changes` return every node."""
        self._changed |= self._nodes.keys()

    def mark_changed(self, name: str) -> None:
        """Make the next `changes` return a node, because its pods may have been counted wrongly."""
        if name in self._nodes:
            self._changed.add(name)

    def node_changed(self, before: DeviceNode | None, after: DeviceNode | None) -> None:
        """Update the account of a Node."""
        if after is None:
            if before is not None:
                self._nodes.pop(before.metadata.name, None)
                self._changed.add(before.metadata.name)
            return
        if before is not None and _same_devices(before, after):
            return
        name = after.metadata.name
        advertised, problem = advertised_devices(after)
        if problem:
            _log.warning("node_devices_unreadable", node=name, error=problem[:500])
        pods = MappingProxyType(dict(self._pods.get(name, {})))
        self._nodes[name] = NodeAccount(name, after.metadata.uid, advertised, problem, pods)
        self._changed.add(name)
        self.freed.emit(name)

    def pod_changed(self, before: DevicePod | None, after: DevicePod | None) -> None:
        """Update a pod of our scheduler: it uses devices from the time it is on a node until it ends."""
        known = after or before
        if known is None:
            return
        uid = known.metadata.uid
        self.pods_version = max(self.pods_version, version_of(known))
        if after is None or after.spec.node_name or after.has_ended:
            self._settle(uid, after)
        if after is not None and after.spec.node_name:
            self._bound.add(uid)
        else:
            self._bound.discard(uid)
        if before is not None and after is not None and _same_use(before, after):
            return
        new = _allocation(after)
        if before is not None and (new is None or before.spec.node_name != new[0]):
            self._release(before.spec.node_name, uid)
        if new is not None:
            self._take(new[0], uid, new[1])

    def assume(self, uid: str, name: str, info: PodInfo) -> None:
        """Count a pod on a node before the watch reports its binding.

        If the watch already has, another replica may have bound the pod, so the node is only marked as changed.
        """
        if uid in self._bound:
            self.mark_changed(name)
            return
        self.forget_assumed(uid)
        self._assumed[uid] = name
        self._take(name, uid, info)

    def forget_assumed(self, uid: str) -> None:
        """Undo `assume`; does nothing if the pod's binding has been seen."""
        name = self._assumed.pop(uid, None)
        if name is not None:
            self._release(name, uid)

    def pods_listed(self, uids: set[str]) -> None:
        """Drop the assumptions about pods that a list of all pods does not have.

        Such a pod is gone, or was created since. In that case, its reservation in the Lease keeps its devices.
        """
        for uid in self._assumed.keys() - uids:
            self.forget_assumed(uid)

    def _settle(self, uid: str, pod: DevicePod | None) -> None:
        """Drop the assumption about a pod, now that the watch has reported it."""
        name, found = self._assumed.pop(uid, None), _allocation(pod)
        if name is not None and (found is None or found[0] != name):
            self._release(name, uid)

    def _take(self, name: str, uid: str, info: PodInfo) -> None:
        pods = self._pods.setdefault(name, {})
        if pods.get(uid) != info:
            pods[uid] = info
            self._renew(name)

    def _release(self, name: str, uid: str) -> None:
        pods = self._pods.get(name, {})
        if pods.pop(uid, None) is not None:
            self._renew(name)
            self.freed.emit(name)
        if not pods:
            self._pods.pop(name, None)

    def _renew(self, name: str) -> None:
        account = self._nodes.get(name)
        if account is not None:
            pods = MappingProxyType(dict(self._pods.get(name, {})))
            self._nodes[name] = replace(account, pods=pods)
            self._changed.add(name)


def version_of(pod: DevicePod) -> int:
    """Return a pod's resourceVersion as a number, or 0 if it is not one; it grows with every change to any pod."""
    text = pod.metadata.resource_version
    return int(text) if text.isascii() and text.isdecimal() else 0


def _allocation(pod: DevicePod | None) -> tuple[str, PodInfo] | None:
    info = allocated_devices(pod) if pod is not None else None
    return (info.node_name, info) if info is not None else None


def _same_use(before: DevicePod, after: DevicePod) -> bool:
    return (
        before.spec.node_name == after.spec.node_name
        and before.has_ended == after.has_ended
        and before.metadata.annotations.get(ANNOTATION) == after.metadata.annotations.get(ANNOTATION)
    )


def _same_devices(before: DeviceNode, after: DeviceNode) -> bool:
    return (
        before.metadata.uid == after.metadata.uid
        and before.metadata.annotations.get(ANNOTATION) == after.metadata.annotations.get(ANNOTATION)
        and before.status == after.status
    )
