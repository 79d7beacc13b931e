"""Validates the result of a plugin's `allocate`: pure functions, with limits."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar

from agent.devices.plugin import Mount

MAX_MOUNTS = 64
MAX_DEVICES = 256
MAX_VARIABLES = 256
MAX_VALUE_LENGTH = 32 * 1024
T = TypeVar("T")
_LONGEST_PATH = 4095  # PATH_MAX without the final NUL
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,255}")


@dataclass(frozen=True, slots=True)
class DeviceAllocation:
    """What a container needs to use its devices: mounts, paths of device nodes, and environment variables."""

    mounts: tuple[Mount, ...] = ()
    devices: tuple[str, ...] = ()
    envs: Mapping[str, str] = field(default_factory=dict)


def allocation_of(answer: object) -> DeviceAllocation:
    """Convert a plugin's answer to our own type. Raises ValueError if it is invalid."""
    if not isinstance(answer, tuple | list) or len(answer) != 3:  # noqa: PLR2004 - as the port says
        raise ValueError("allocate did not return mounts, devices and envs")
    mounts, devices, envs = answer
    if not isinstance(envs, Mapping):
        raise ValueError("the envs are not a dict")  # noqa: TRY004 - the type of a value is its content here
    variables = _first(envs.items(), MAX_VARIABLES, "envs")
    return DeviceAllocation(
        tuple(_mount(each) for each in _listed(mounts, MAX_MOUNTS, "mounts")),
        tuple(_path(each, "the device") for each in _listed(devices, MAX_DEVICES, "devices")),
        {_variable(name): _text(value, name) for name, value in variables},
    )


def _listed(value: object, most: int, what: str) -> list[object]:
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        raise ValueError(f"the {what} are not a list")  # noqa: TRY004 - as above
    return _first(value, most, what)


def _first(values: Iterable[T], most: int, what: str) -> list[T]:
    found = list(islice(values, most + 1))
    if len(found) > most:
        raise ValueError(f"there are more than {most} {what}")
    return found


def _mount(value: object) -> Mount:
    if not isinstance(value, tuple) or len(value) != 3 or not isinstance(value[2], bool):  # noqa: PLR2004 - a Mount
        raise ValueError(f"a mount is not a Mount: {value!r:.200}")
    return Mount(_path(value[0], "the container path"), _path(value[1], "the host path"), value[2])


def _path(value: object, what: str) -> str:
    """Return the value if it is an absolute path without empty, dotted or unprintable parts."""
    if not isinstance(value, str) or not value.startswith("/") or len(value) > _LONGEST_PATH:
        raise ValueError(f"{what} {value!r:.200} is not an absolute path")
    if any(part in ("", ".", "..") for part in value[1:].split("/")) or not value.isprintable():
        raise ValueError(f"{what} {value!r:.200} has empty, dotted or unprintable parts")
    return value


def _variable(name: object) -> str:
    if not isinstance(name, str) or not _VARIABLE.fullmatch(name):
        raise ValueError(f"{name!r:.200} is not the name of an environment variable")
    return str.__str__(name)  # an Enum is formatted differently


def _text(value: object, name: object) -> str:
    if not isinstance(value, str) or len(value) > MAX_VALUE_LENGTH or "\0" in value:
        raise ValueError(f"the value of {name} is not a string of at most {MAX_VALUE_LENGTH} characters")
    value.encode()  # a lone surrogate is a ValueError
    return str.__str__(value)
