"""Plans the ResourceSlices of a node. No input or output, no clock.

All slices of a pool carry the same generation, and a change to one slice raises it in all of them. Consumers ignore a
pool until they have seen all slices of its newest generation.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from shared.dra import DRIVER
from shared.json_object import Json

DIGEST = "larder.dev/devices"  # annotation: hash of the devices as written, since servers drop unknown fields
MAX_DEVICES = 64  # the API allows 128, but 64 with taints; with 64, a new taint moves no device to another slice
_NAME = 200


@dataclass(frozen=True, slots=True)
class PublishedSlice:
    """One of our slices on the API server; `unshared` if the server dropped the field that lets claims share a device.

    `tainted` is the number of devices with a taint: 0 if the server dropped the taints. If the Node was deleted and
    created again, `owner_uid` may be that of the former Node. Such slices are garbage.
    """

    name: str
    version: str
    generation: int
    count: int
    digest: str
    owner_uid: str
    unshared: bool
    tainted: int


@dataclass(frozen=True, slots=True)
class CreateSlice:
    """Create a slice."""

    body: Json


@dataclass(frozen=True, slots=True)
class ReplaceSlice:
    """Replace a slice that has this name and version."""

    name: str
    body: Json


@dataclass(frozen=True, slots=True)
class DeleteSlice:
    """Delete a slice that the pool no longer needs."""

    name: str


SliceAction: TypeAlias = CreateSlice | ReplaceSlice | DeleteSlice


@dataclass(frozen=True, slots=True)
class PoolOwner:
    """The Node that the pool belongs to."""

    name: str
    uid: str


def plan_slices(
    owner: PoolOwner, devices: Sequence[Json], published: Sequence[PublishedSlice], last_generation: int = 0
) -> list[SliceAction]:
    """Return the actions that make the pool list exactly these devices; none if it already does.

    Each process writes fields that the server has dropped once more, because the server may store them by now.

    Args:
        owner: The Node.
        devices: All devices, in a stable order.
        published: The slices of the pool, read live.
        last_generation: The highest generation that this process has written, even if those slices were deleted since.
    """
    chunks = [list(devices[i : i + MAX_DEVICES]) for i in range(0, len(devices), MAX_DEVICES)] or [[]]
    wanted = {slice_name(owner.name, i): chunk for i, chunk in enumerate(chunks)}
    known = {each.name: each for each in published}
    if _is_current(owner, wanted, known) and (last_generation or not any(each.unshared for each in published)):
        return []
    generation = max([last_generation, *(each.generation for each in published)]) + 1
    actions: list[SliceAction] = []
    for name, chunk in wanted.items():
        body = _body(owner, name, chunk, generation, len(wanted))
        if name in known:
            body["metadata"]["resourceVersion"] = known[name].version
            actions.append(ReplaceSlice(name, body))
        else:
            actions.append(CreateSlice(body))
    return [*actions, *(DeleteSlice(name) for name in sorted(known.keys() - wanted.keys()))]


def generation_of(actions: Sequence[SliceAction]) -> int:
    """Return the generation that these actions write; 0 if none of them writes a slice."""
    bodies = (action.body for action in actions if not isinstance(action, DeleteSlice))
    return max((body["spec"]["pool"]["generation"] for body in bodies), default=0)


def slice_name(node: str, index: int) -> str:
    """Return the name of one slice of a node."""
    return f"{node[:_NAME].rstrip('.-')}-{hashlib.sha256(node.encode()).hexdigest()[:8]}-models-{index}"


def published_slice(body: Json) -> PublishedSlice:
    """Return the fields of an existing slice that planning needs."""
    meta, pool = body["metadata"], body["spec"]["pool"]
    digest = (meta.get("annotations") or {}).get(DIGEST, "")
    owner_uid = next((each["uid"] for each in meta.get("ownerReferences") or () if each["kind"] == "Node"), "")
    devices = body["spec"].get("devices") or ()
    return PublishedSlice(
        meta["name"],
        meta["resourceVersion"],
        pool["generation"],
        pool["resourceSliceCount"],
        digest,
        owner_uid,
        any("allowMultipleAllocations" not in device for device in devices),
        _tainted(devices),
    )


def _is_current(owner: PoolOwner, wanted: dict[str, list[Json]], known: dict[str, PublishedSlice]) -> bool:
    return (
        wanted.keys() == known.keys()
        and len({each.generation for each in known.values()}) == 1
        and all(each.owner_uid == owner.uid for each in known.values())
        and all(known[name].count == len(wanted) and known[name].digest == _digest(wanted[name]) for name in wanted)
        and all(known[name].tainted == _tainted(wanted[name]) for name in wanted)
    )


def _tainted(devices: Sequence[Json]) -> int:
    return sum(bool(device.get("taints")) for device in devices)


def _digest(devices: Sequence[Json]) -> str:
    return hashlib.sha256(json.dumps(devices, sort_keys=True).encode()).hexdigest()


def _body(owner: PoolOwner, name: str, devices: Sequence[Json], generation: int, count: int) -> Json:
    reference = {"apiVersion": "v1", "kind": "Node", "name": owner.name, "uid": owner.uid, "controller": True}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name, "ownerReferences": [reference], "annotations": {DIGEST: _digest(devices)}},
        "spec": {
            "driver": DRIVER,
            "nodeName": owner.name,
            "pool": {"name": owner.name, "generation": generation, "resourceSliceCount": count},
            "devices": list(devices),
        },
    }
