"""Parses and writes the annotation `KubeDevice/DeviceInfo` of Nodes and Pods; no input or output.

Anyone who may create a pod can write this text, so its size, depth and number of parts are limited. Each error says
where in the text it is.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from shared.decode_errors import DECODE_ERRORS
from shared.devices.info import ContainerInfo, NodeInfo, PodInfo

ANNOTATION = "KubeDevice/DeviceInfo"
MAX_BYTES = 256 * 1024  # the API server's limit for all annotations of an object
MAX_REQUEST_BYTES = 32 * 1024  # of what a user writes to a pod
MAX_NODE_RESOURCES = 4096
MAX_POD_RESOURCES = 256  # in one list
MAX_CONTAINERS = 64
MAX_NAME_LENGTH = 512
MAX_NAME_PARTS = 32
_MAX_VALUE = 2**63 - 1
_MAX_SCORER = 2**31 - 1
_T = TypeVar("_T", int, str)


class InvalidDeviceInfo(ValueError):
    """The text or the dict is not device information, or exceeds a limit; the message says where and why."""


def parse_node_info(text: str | bytes) -> NodeInfo:
    """Parse the annotation of a Node."""
    return node_info_from(_decoded(text))


def parse_pod_info(text: str | bytes) -> PodInfo:
    """Parse the annotation of a Pod."""
    return pod_info_from(_decoded(text))


def parse_pod_request(text: str) -> PodInfo:
    """Parse the annotation of a Pod as a user writes it; its limit is lower than that of an allocation."""
    size = len(text.encode())
    if size > MAX_REQUEST_BYTES:
        raise InvalidDeviceInfo(
            f"the text has {size} bytes; a pod may write {MAX_REQUEST_BYTES}: shorten names, ask for cards by number "
            "(nvidia.com/gpu), and put other data in another annotation"
        )
    return parse_pod_info(text)


def node_info_from(value: object) -> NodeInfo:
    """Convert decoded JSON to a NodeInfo."""
    keys = _Keys(value, "")
    return NodeInfo(
        name=keys.text("name"),
        capacity=keys.quantities("capacity", MAX_NODE_RESOURCES),
        allocatable=keys.quantities("allocatable", MAX_NODE_RESOURCES),
        used=keys.quantities("used", MAX_NODE_RESOURCES),
        scorer=keys.scorers("scorer", MAX_NODE_RESOURCES),
        unknown=keys.rest(),
    )


def pod_info_from(value: object) -> PodInfo:
    """Convert decoded JSON to a PodInfo."""
    keys = _Keys(value, "")
    return PodInfo(
        name=keys.text("podname"),
        node_name=keys.text("nodename"),
        requests=keys.quantities("requests", MAX_POD_RESOURCES),
        init_containers=_containers(keys, "initcontainer"),
        running_containers=_containers(keys, "runningcontainer"),
        unknown=keys.rest(),
    )


def node_info_json(node: NodeInfo) -> dict[str, Any]:
    """Return the JSON for a Node's annotation, without empty keys and without the `kube_` fields."""
    return node.unknown | _present(
        name=node.name,
        capacity=node.capacity,
        allocatable=node.allocatable,
        used=node.used,
        scorer=node.scorer,
    )


def pod_info_json(pod: PodInfo) -> dict[str, Any]:
    """Return the JSON for a Pod's annotation, without empty keys and without the `kube_` fields."""
    return pod.unknown | _present(
        podname=pod.name,
        nodename=pod.node_name,
        requests=pod.requests,
        initcontainer={name: _container_json(each) for name, each in pod.init_containers.items()},
        runningcontainer={name: _container_json(each) for name, each in pod.running_containers.items()},
    )


def encode_node_info(node: NodeInfo) -> str:
    """Return the text of a Node's annotation; equal content gives equal text."""
    return msgspec.json.encode(node_info_json(node), order="deterministic").decode()


def encode_pod_info(pod: PodInfo) -> str:
    """Return the text of a Pod's annotation; equal content gives equal text."""
    return msgspec.json.encode(pod_info_json(pod), order="deterministic").decode()


def _decoded(text: str | bytes) -> object:
    content = text.encode() if isinstance(text, str) else text
    if len(content) > MAX_BYTES:
        raise InvalidDeviceInfo(f"the text has {len(content)} bytes; the limit is {MAX_BYTES}")
    try:
        return msgspec.json.decode(content)
    except RecursionError:
        raise InvalidDeviceInfo("the text is nested too deeply; device information has four levels") from None
    except DECODE_ERRORS as error:
        raise InvalidDeviceInfo(f"the text is not JSON: {error}") from error


def _container_json(container: ContainerInfo) -> dict[str, Any]:
    return container.unknown | _present(
        requests=container.requests,
        devrequests=container.dev_requests,
        allocatefrom=container.allocate_from,
        scorer=container.scorer,
    )


def _containers(keys: "_Keys", key: str) -> dict[str, ContainerInfo]:
    found: dict[str, ContainerInfo] = {}
    for name, value in keys.mapping(key, MAX_CONTAINERS).items():
        each = _Keys(value, f"{keys.path(key)}.{name}")
        found[name] = ContainerInfo(
            requests=each.quantities("requests", MAX_POD_RESOURCES),
            dev_requests=each.quantities("devrequests", MAX_POD_RESOURCES),
            allocate_from=each.locations("allocatefrom", MAX_POD_RESOURCES),
            scorer=each.scorers("scorer", MAX_POD_RESOURCES),
            unknown=each.rest(),
        )
    return found


def _present(**values: object) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value}


class _Keys:
    """Reads known keys of one JSON object; `rest` returns all others."""

    def __init__(self, value: object, path: str) -> None:
        if not isinstance(value, Mapping):
            raise InvalidDeviceInfo(f"{path or 'the text'} is {_kind(value)}, not an object")
        self._values, self._path, self._known = value, path, set[str]()

    def path(self, key: str) -> str:
        return f"{self._path}.{key}" if self._path else key

    def mapping(self, key: str, most: int) -> Mapping[str, Any]:
        value = self._take(key)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise InvalidDeviceInfo(f"{self.path(key)} is {_kind(value)}, not an object")
        if len(value) > most:
            raise InvalidDeviceInfo(f"{self.path(key)} has {len(value)} entries; the limit is {most}")
        for name in value:
            _check_name(name, self.path(key))
        return value

    def text(self, key: str) -> str:
        value = self._take(key)
        if value is None:
            return ""
        if not isinstance(value, str) or len(value) > MAX_NAME_LENGTH:
            raise InvalidDeviceInfo(
                f"{self.path(key)} is {_kind(value)}, not a string of at most {MAX_NAME_LENGTH} characters"
            )
        return value

    def quantities(self, key: str, most: int) -> dict[str, int]:
        return self._each(key, most, lambda value: _number(value, _MAX_VALUE))

    def scorers(self, key: str, most: int) -> dict[str, int]:
        return self._each(key, most, lambda value: _number(value, _MAX_SCORER))

    def locations(self, key: str, most: int) -> dict[str, str]:
        return self._each(key, most, _location)

    def rest(self) -> dict[str, Any]:
        return {key: value for key, value in self._values.items() if key not in self._known}

    def _take(self, key: str) -> object:
        self._known.add(key)
        return self._values.get(key)

    def _each(self, key: str, most: int, read: Callable[[object], _T]) -> dict[str, _T]:
        found: dict[str, _T] = {}
        for name, value in self.mapping(key, most).items():
            try:
                found[name] = read(value)
            except ValueError as error:
                raise InvalidDeviceInfo(f"{self.path(key)}[{name!r}] {error}") from None
        return found


def _check_name(name: object, path: str) -> None:
    if not isinstance(name, str):
        raise InvalidDeviceInfo(f"{path} has the key {name!r}, which is {_kind(name)}, not a string")
    if len(name) > MAX_NAME_LENGTH or name.count("/") >= MAX_NAME_PARTS:
        raise InvalidDeviceInfo(
            f"{path} has a name of {len(name)} characters in {name.count('/') + 1} parts, but at most "
            f"{MAX_NAME_LENGTH} in {MAX_NAME_PARTS} are allowed: {name[:64]!r}"
        )


def _number(value: object, largest: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"is {_kind(value)}, not a whole number")  # noqa: TRY004 - the type of a value is its content here
    if not 0 <= value <= largest:
        shown = value if abs(value) < 2**64 else "an enormous number"
        raise ValueError(f"is {shown}, not between 0 and {largest}")
    return value


def _location(value: object) -> str:
    if not isinstance(value, str) or len(value) > MAX_NAME_LENGTH:
        raise ValueError(f"is {_kind(value)}, not the name of a resource of at most {MAX_NAME_LENGTH} characters")
    return value


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return f"the number {value}"
        case str():
            return f"a string of {len(value)} characters"
        case list() | tuple():
            return "a list"
        case Mapping():
            return "an object"
        case _:
            return f"a {type(value).__name__}"
