"""The annotations by which a pod asks for Models. No input or output."""

import json
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from controller.admission.errors import InvalidPath, InvalidRequest
from controller.admission.paths import checked_mount_path

PREFIX = "models.example.com/"
INJECT = PREFIX + "inject"  # names of Models, comma-separated
MOUNT_PATH = PREFIX + "mount-path"  # where the Model is mounted; for several, the parent directory
READ_ONLY = PREFIX + "read-only"
CONTAINER = PREFIX + "container"  # the containers that get the Models, comma-separated; by default the first
INJECT_ENV = PREFIX + "inject-env"

_KNOWN = (INJECT, MOUNT_PATH, READ_ONLY, CONTAINER, INJECT_ENV)
_MAX_MODELS = 64
_SHOWN = 100  # characters of an invalid value
_DEFAULT_PARENT = "/models"


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """What a pod asks for: the Models, each with its mount path, and how its containers get them."""

    paths: Mapping[str, str]
    read_only: bool
    containers: Sequence[str]
    variables: bool


def requested_names(annotations: Mapping[str, str]) -> list[str] | None:
    """Return the Models that a pod names, None if it asks for none. Raises InvalidRequest."""
    if INJECT not in annotations:
        return None
    names = _parts(annotations[INJECT])
    if not names:
        raise InvalidRequest(f"annotation {INJECT} names no Model; write one or several names, separated by commas")
    if len(names) > _MAX_MODELS:
        raise InvalidRequest(f"annotation {INJECT} names {len(names)} Models; a pod may have at most {_MAX_MODELS}")
    return names


def read_request(names: Sequence[str], annotations: Mapping[str, str]) -> ModelRequest:
    """Return how a pod wants these Models. Raises InvalidRequest or InvalidPath."""
    requested = annotations.get(MOUNT_PATH)
    return ModelRequest(
        {name: _path(name, requested, alone=len(names) == 1) for name in names},
        read_only=_flag(annotations, READ_ONLY),
        containers=_containers(annotations),
        variables=_flag(annotations, INJECT_ENV),
    )


def unknown_annotation_warnings(annotations: Mapping[str, str]) -> list[str]:
    """Return a warning about the first annotation that has our prefix but is unknown."""
    unknown = sorted(key for key in annotations if key.startswith(PREFIX) and key not in _KNOWN)
    return [f"annotation {key} is unknown and ignored; Larder knows {', '.join(_KNOWN)}" for key in unknown[:1]]


def quoted(text: str) -> str:
    """Return a text in double quotes, cut if it is long."""
    return json.dumps(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")


def _parts(text: str) -> list[str]:
    return list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def _path(name: str, requested: str | None, *, alone: bool) -> str:
    parent = _DEFAULT_PARENT if requested is None else requested
    try:
        return checked_mount_path(parent if alone and requested is not None else posixpath.join(parent, name))
    except InvalidPath as error:
        raise InvalidPath(f"annotation {MOUNT_PATH}: {error}") from error


def _containers(annotations: Mapping[str, str]) -> list[str]:
    names = _parts(annotations.get(CONTAINER, ""))
    if CONTAINER in annotations and not names:
        raise InvalidRequest(
            f"annotation {CONTAINER} names no container; write the name of one, or remove the annotation"
        )
    return names


def _flag(annotations: Mapping[str, str], key: str) -> bool:
    value = annotations.get(key, "true")
    if value not in ("true", "false"):
        raise InvalidRequest(f'annotation {key} is {quoted(value)}; write "true" or "false"')
    return value == "true"
