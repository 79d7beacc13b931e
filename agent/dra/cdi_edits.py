"""Builds the Container Device Interface (CDI) file of a claim: pure functions.

A runtime reads one file per claim, with one CDI device per allocated device. A device's variables override those of the
pod. If two devices in one container set the same variable, the last one wins, so each model also gets a variable that
names its request.
"""

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agent.dra.devices import DiskSnapshot
from shared.dra import AllocatedDevice
from shared.json_object import Json

CDI_KIND = "larder.dev/model"
CDI_VERSION = "0.5.0"  # the newest version that containerd 1.7 reads
MODELS_PATH = "/models"  # in the container
_OPTIONS = ("ro", "bind", "nosuid", "nodev")  # not rbind: mounts below it would be writable
_NOT_IN_VARIABLE_NAMES = re.compile(r"[^A-Z0-9]+")


@dataclass(frozen=True, slots=True)
class PluginEdits:
    """What device plugins add for a container: host paths by container path, device nodes, and variables."""

    mounts: Mapping[str, str] = field(default_factory=dict)
    devices: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)


_NO_EDITS = PluginEdits()


@dataclass(frozen=True, slots=True)
class PreparedDevice:
    """One allocated device as passed to kubelet and the runtime. `model` is None for the device `fetch`."""

    allocated: AllocatedDevice
    cdi_name: str
    model: DiskSnapshot | None
    suffix: str
    plugin_edits: PluginEdits = _NO_EDITS

    @property
    def cdi_id(self) -> str:
        """The qualified name of the device."""
        return f"{CDI_KIND}={self.cdi_name}"


def prepared_devices(
    uid: str,
    results: Sequence[AllocatedDevice],
    models: Mapping[str, DiskSnapshot],
    plugin_edits: Mapping[int, PluginEdits],
) -> list[PreparedDevice]:
    """Return a claim's devices in allocation order; each gets a unique name, even if other claims share the device."""
    suffixes = _suffixes(results)
    return [
        PreparedDevice(result, f"{uid}-{i}", models.get(result.device), suffixes[i], plugin_edits.get(i, _NO_EDITS))
        for i, result in enumerate(results)
    ]


def cdi_file(prepared: Sequence[PreparedDevice]) -> Json:
    """Return the content of the file of a claim."""
    devices = [{"name": each.cdi_name, "containerEdits": _edits(each)} for each in prepared]
    return {"cdiVersion": CDI_VERSION, "kind": CDI_KIND, "devices": devices}


def _edits(prepared: PreparedDevice) -> Json:
    mounts, env = dict(prepared.plugin_edits.mounts), dict(prepared.plugin_edits.env)
    if prepared.model is not None:
        target = f"{MODELS_PATH}/{prepared.model.device}"
        mounts[target] = prepared.model.path
        env |= _variables(prepared.suffix, PATH=target, ID=prepared.model.id)
    env |= _variables(prepared.suffix, CACHED="false" if prepared.model is None else "true")
    edits: Json = {"env": [f"{name}={value}" for name, value in env.items()]}
    if mounts:
        edits["mounts"] = [
            {"hostPath": host, "containerPath": target, "options": list(_OPTIONS)} for target, host in mounts.items()
        ]
    if prepared.plugin_edits.devices:
        edits["deviceNodes"] = [{"path": path} for path in prepared.plugin_edits.devices]
    return edits


def _variables(suffix: str, **values: str) -> dict[str, str]:
    return {f"MODEL_{name}{end}": value for name, value in values.items() for end in ("", f"_{suffix}")}


def _suffixes(results: Sequence[AllocatedDevice]) -> list[str]:
    """Return the suffix of each device's variables: the request's name, plus a number from its second device on.

    Numbers that would produce the name of another request are skipped.
    """
    names = [_NOT_IN_VARIABLE_NAMES.sub("_", result.main_request.upper()).strip("_") or "MODEL" for result in results]
    found: list[str] = []
    for name in names:
        numbered = (f"{name}_{number}" for number in itertools.count(2))
        free = (each for each in numbered if each not in found and each not in names)
        found.append(next(free) if name in found else name)
    return found
