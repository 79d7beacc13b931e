"""Nodes with devices, and pods that request them."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from controller.devices.plugin import DeviceFit
from controller.extender.device_objects import DeviceNode, DevicePod
from shared.devices.annotation import ANNOTATION
from shared.devices.info import NodeInfo
from shared.devices.scheduler import SCHEDULER_NAME
from shared.json_object import Json

CARD = "resource/group/gpu/0/cards"


def card(place: str) -> str:
    """The card at a place of a node."""
    return f"resource/group/gpu/{place}/cards"


def node_json(name: str, allocatable: Mapping[str, int] | None = None, annotation: str | None = None) -> Json:
    """A Node that advertises these devices, or has this annotation."""
    text = json.dumps({"name": name, "allocatable": dict(allocatable or {})}) if annotation is None else annotation
    metadata = {"name": name, "uid": f"uid-{name}", "annotations": {ANNOTATION: text} if text else {}}
    return {"metadata": metadata, "status": {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "4"}}}


def device_node(name: str, allocatable: Mapping[str, int] | None = None, annotation: str | None = None) -> DeviceNode:
    """The object as the informer reads it."""
    return msgspec.convert(node_json(name, allocatable, annotation), DeviceNode)


def pod_json(name: str, asks: Mapping[str, int] | None = None, annotation: str | None = None, **spec: Any) -> Json:
    """A pod of our scheduler whose container requests these devices, or that has this annotation."""
    text = json.dumps({"runningcontainer": {"main": {"requests": dict(asks)}}}) if asks is not None else annotation
    metadata: Json = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    if text is not None:
        metadata["annotations"] = {ANNOTATION: text}
    containers = [{"name": "main", "image": "image"}]
    return {"metadata": metadata, "spec": {"schedulerName": SCHEDULER_NAME, "containers": containers} | spec}


def device_pod(
    name: str, asks: Mapping[str, int] | None = None, annotation: str | None = None, **spec: Any
) -> DevicePod:
    """The object as the informer reads it."""
    return msgspec.convert(pod_json(name, asks, annotation, **spec), DevicePod)


def bound_pod(name: str, node: str, place: str, phase: str = "Running", value: int = 1) -> DevicePod:
    """A pod on a node, with a card of it."""
    got = {"devrequests": {CARD: value}, "allocatefrom": {CARD: card(place)}}
    annotation = json.dumps({"nodename": node, "runningcontainer": {"main": {"requests": {CARD: value}} | got}})
    body = pod_json(name, annotation=annotation, nodeName=node) | {"status": {"phase": phase}}
    return msgspec.convert(body, DevicePod)


class ScriptedPlugin:
    """A scheduler plugin that does something in some of its methods, and fits everywhere otherwise.

    `asked` lists the nodes that it has checked, `added` the nodes that it knows.
    """

    using_group_scheduler = True

    def __init__(self, name: str = "odd", /, **does: Callable[[], object]) -> None:
        self.name, self._does = name, does
        self.asked: list[str] = []
        self.added: list[str] = []

    def _do(self, method: str) -> object:
        return self._does[method]() if method in self._does else None

    def add_node(self, node_name: str, *_: Any, **__: Any) -> None:
        self.added.append(node_name)
        self._do("add_node")

    def remove_node(self, node_name: str) -> None:
        self.added.remove(node_name)
        self._do("remove_node")

    def pod_fits_device(self, node_info: NodeInfo, *_: Any, **__: Any) -> DeviceFit:
        self.asked.append(node_info.name)
        return self._do("pod_fits_device") or DeviceFit(fits=True)  # type: ignore[return-value]  # nonsense is a point

    def pod_allocate(self, *_: Any, **__: Any) -> None:
        self._do("pod_allocate")

    def take_pod_resources(self, *_: Any, **__: Any) -> None:
        self._do("take_pod_resources")

    def return_pod_resources(self, *_: Any, **__: Any) -> None:
        self._do("return_pod_resources")
