"""Derives a node's devices from its snapshots and its ModelNode: pure functions."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from shared.api.model_node import Entry, EntryState
from shared.dra import FETCH_DEVICE, MAX_TEXT_BYTES, attribute_text, device_name
from shared.json_object import Json
from shared.names import namespace_of

LEAVING_TAINT = "larder.dev/leaving"
DAMAGED_TAINT = "larder.dev/damaged"


@dataclass(frozen=True, slots=True)
class DiskSnapshot:
    """A complete snapshot on disk; usable while no file is `damaged`.

    `architecture` and `parameters` are empty if the files do not state them, or have not been read.
    """

    id: str
    revision: str
    path: str
    size_bytes: int = 0
    damaged: tuple[str, ...] = ()
    architecture: str = ""
    parameters: int = 0
    manifest: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """The key of the snapshot's entry in the ModelNode."""
        return self.id, self.revision

    @property
    def device(self) -> str:
        """The name of the snapshot's device."""
        return device_name(self.id, self.revision)


@dataclass(frozen=True, slots=True)
class ModelDevice:
    """A model that claims can hold; a device with a taint gets no new claims."""

    model: DiskSnapshot
    taint: str = ""


def devices_of(held: Iterable[DiskSnapshot], entries: Mapping[tuple[str, str], Entry]) -> tuple[ModelDevice, ...]:
    """Return the devices, sorted by name. Snapshots without an entry in the ModelNode are not offered."""
    listed = (ModelDevice(model, taint_of(model, entries[model.key])) for model in held if model.key in entries)
    return tuple(sorted(listed, key=lambda device: device.model.device))


def taint_of(model: DiskSnapshot, entry: Entry) -> str:
    """Return the taint key that keeps new pods from a snapshot, or an empty string."""
    if entry.state != EntryState.PRESENT:
        return LEAVING_TAINT
    return DAMAGED_TAINT if model.damaged else ""


def device_json(device: ModelDevice) -> Json:
    """Return a device as a ResourceSlice lists it."""
    model = device.model
    body: Json = {
        "name": model.device,
        "allowMultipleAllocations": True,
        "attributes": _attributes(
            model=attribute_text(model.id),
            modelHash=hashlib.sha256(model.id.encode()).hexdigest(),
            namespace=namespace_of(model.id),
            revision=attribute_text(model.revision),
            sizeBytes=model.size_bytes,
            architecture=model.architecture.encode()[:MAX_TEXT_BYTES].decode(errors="ignore"),
            parameters=model.parameters,
            cached=True,
        ),
    }
    if device.taint:
        body["taints"] = [{"key": device.taint, "effect": "NoSchedule"}]
    return body


def fetch_json() -> Json:
    """Return the device `fetch`, which every node has, with all attributes: CEL fails on a missing attribute."""
    empty = dict.fromkeys(("model", "modelHash", "namespace", "revision", "architecture"), "")
    return {
        "name": FETCH_DEVICE,
        "allowMultipleAllocations": True,
        "attributes": _attributes(**empty, sizeBytes=0, parameters=0, cached=False),
    }


def _attributes(**values: str | int | bool) -> Json:
    kinds = {str: "string", int: "int", bool: "bool"}
    return {name: {kinds[type(value)]: value} for name, value in values.items()}
