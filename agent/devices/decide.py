"""Decides which annotations and status fields of the agent's own Node to write."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

from agent.devices.combine_offers import is_empty
from shared.devices.annotation import ANNOTATION, MAX_BYTES, InvalidDeviceInfo, encode_node_info, parse_node_info
from shared.devices.info import NodeInfo
from shared.quantity import parse_quantity

RECORD = "larder.dev/extended-resources"  # the names of the extended resources that the agent wrote
MAX_RECORDED = 512


@dataclass(frozen=True, slots=True)
class AdvertisedNode:
    """The device fields of the agent's own Node: two annotations, and the quantities in its status, unparsed."""

    uid: str
    annotation: str | None = None
    record: str = ""
    capacity: Mapping[str, str] = field(default_factory=dict)
    allocatable: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeviceObservation:
    """The Node, and what it should advertise.

    Args:
        node: The Node as it was read.
        info: The combined offer of all plugins.
        prefixes: Allowed prefixes for the names of extended resources.
        overruled: Extended resources that kubelet makes fully allocatable (`overruled_by_kubelet`).
    """

    node: AdvertisedNode
    info: NodeInfo
    prefixes: tuple[str, ...]
    overruled: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class WriteNodeAnnotations:
    """Set these annotations; None removes one."""

    what: ClassVar[str] = "annotations"  # in metrics and logs
    changes: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class WriteNodeStatus:
    """Set these quantities in the status; None removes one."""

    what: ClassVar[str] = "status"
    capacity: Mapping[str, str | None]
    allocatable: Mapping[str, str | None]


DeviceAction: TypeAlias = WriteNodeAnnotations | WriteNodeStatus


def decide(observation: DeviceObservation) -> list[DeviceAction]:
    """Return the writes that are needed; none if the Node is up to date.

    The record is written before the status, so that a later agent knows which resources it may remove.
    """
    return [*_annotations(observation), *_status(observation)]


def unknown_keys(node: AdvertisedNode) -> tuple[Mapping[str, object], str]:
    """Return the annotation's keys that are not ours, and the problem with the annotation, if any."""
    if node.annotation is None:
        return {}, ""
    try:
        return parse_node_info(node.annotation).unknown, ""
    except InvalidDeviceInfo as error:
        return {}, str(error)


def overruled_by_kubelet(node: AdvertisedNode, written: Mapping[str, tuple[int, int]]) -> frozenset[str]:
    """Return the resources that kubelet made fully allocatable although less was written.

    Kubelet does so for extended resources that it does not manage.

    Args:
        node: The Node as it was read.
        written: Capacity and allocatable by extended resource, as last written.
    """
    return frozenset(
        name
        for name, (capacity, allocatable) in written.items()
        if allocatable < capacity
        and _number(node.capacity.get(name)) == capacity
        and _number(node.allocatable.get(name)) == capacity
    )


def overruled_before(node: AdvertisedNode, info: NodeInfo, prefixes: Collection[str]) -> frozenset[str]:
    """Return the resources whose capacity an earlier agent reduced because kubelet had overruled it.

    Otherwise a new agent would raise the capacity again, and too much would be allocatable until it saw that kubelet
    overrules it too.
    """
    return frozenset(
        name
        for name in _recorded(node.record, prefixes)
        if (free := info.kube_alloc.get(name)) is not None
        and free < info.kube_cap[name]
        and _number(node.capacity.get(name)) == _number(node.allocatable.get(name)) == free
    )


def wanted_resources(observation: DeviceObservation) -> dict[str, tuple[int, int]]:
    """Return capacity and allocatable of each extended resource that the status should have."""
    info = observation.info
    return {
        name: (allocatable if name in observation.overruled else info.kube_cap[name], allocatable)
        for name, allocatable in info.kube_alloc.items()
    }


def _annotations(observation: DeviceObservation) -> Iterator[WriteNodeAnnotations]:
    node, info = observation.node, observation.info
    text = None if is_empty(info) else encode_node_info(info)
    ours = sorted({*info.kube_alloc, *_left_over(observation)})
    wanted: dict[str, tuple[str | None, str | None]] = {
        ANNOTATION: (node.annotation, text),
        RECORD: (node.record or None, ",".join(ours) or None),
    }
    changes = {key: new for key, (old, new) in wanted.items() if old != new}
    if changes:
        yield WriteNodeAnnotations(changes)


def _status(observation: DeviceObservation) -> Iterator[WriteNodeStatus]:
    node, wanted = observation.node, wanted_resources(observation)
    capacity: dict[str, str | None] = dict.fromkeys(sorted(_left_over(observation)))
    allocatable = dict(capacity)
    for name, (whole, free) in sorted(wanted.items()):
        if (_number(node.capacity.get(name)), _number(node.allocatable.get(name))) != (whole, free):
            capacity[name], allocatable[name] = str(whole), str(free)
    if capacity:
        yield WriteNodeStatus(capacity, allocatable)


def _left_over(observation: DeviceObservation) -> set[str]:
    """Return the extended resources in the status that the agent wrote and no plugin offers any more."""
    node, wanted = observation.node, observation.info.kube_alloc
    recorded = _recorded(node.record, observation.prefixes)
    return {name for name in recorded if name not in wanted and (name in node.capacity or name in node.allocatable)}


def _recorded(record: str, prefixes: Collection[str]) -> list[str]:
    if len(record) > MAX_BYTES:
        return []
    return [name for name in record.split(",") if name.startswith(tuple(prefixes))][:MAX_RECORDED]


def _number(quantity: str | None) -> int | None:
    """Return a quantity as a number; None if it is missing or unreadable."""
    try:
        return None if quantity is None else parse_quantity(quantity)
    except ValueError:
        return None
