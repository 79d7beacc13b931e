"""Which fields of a spec are filled from metadata. No input or output, no clock."""

from collections.abc import Mapping
from typing import Any

import msgspec

from shared.api.base_model import BaseModelSpec
from shared.api.meta import ReadMetadata
from shared.metadata.model_metadata import Metadata
from shared.metadata.ome import ome_fields

SKIP_ANNOTATION = "ome.io/skip-config-parsing"
FILLED = (
    "modelType", "modelArchitecture", "modelFormat", "modelFramework", "quantization", "modelParameterSize",
    "modelCapabilities", "maxTokens", "diffusionPipeline",
)  # fmt: skip
# Fields that every text model has; others (quantization, a pipeline's parts) are empty for most.
_WHOLE = frozenset(
    ("modelType", "modelArchitecture", "modelFormat", "modelFramework", "modelParameterSize", "modelCapabilities",
     "maxTokens")
)  # fmt: skip
Fields = Mapping[str, Any]


def written_fields(spec: BaseModelSpec) -> dict[str, Any]:
    """Return a spec's non-empty fields by their JSON names."""
    fields = msgspec.to_builtins(spec)
    return {name: value for name, value in fields.items() if value not in (None, "", [], {})}


def is_written(spec: Fields, last: ReadMetadata | None) -> bool:
    """Return whether the user set all fields that a reading would fill; `last` is the last reading."""
    ours = _filled_before(last)
    return all(name in spec and spec[name] != ours.get(name) for name in _WHOLE)


def fields_to_write(spec: Fields, last: ReadMetadata | None, values: Fields) -> dict[str, Any]:
    """Return the spec's fields to set (None: to remove) from the kept metadata; never one that a user wrote.

    A field counts as ours while it has the value of the last reading.
    """
    ours, new = _filled_before(last), _ome_fields_of(values)
    found = {}
    for name in FILLED:
        present = spec.get(name)
        if present != new.get(name) and (present is None or present == ours.get(name)):
            found[name] = new.get(name)
    return found


def metadata_of(values: Fields) -> Metadata | None:
    """Return the metadata kept in a status; None if there is none, or the status was tampered with."""
    try:
        return msgspec.convert(values, Metadata) if values else None
    except msgspec.ValidationError:
        return None


def _ome_fields_of(values: Fields) -> dict[str, Any]:
    found = metadata_of(values)
    return ome_fields(found) if found else {}


def _filled_before(last: ReadMetadata | None) -> dict[str, Any]:
    return _ome_fields_of(last.values) if last else {}
