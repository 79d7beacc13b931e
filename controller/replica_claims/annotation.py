"""Reads the templates in a pod's annotation, as JSON or YAML. No input or output, no clock.

Anyone who may create a pod can write this text, so its size, number of values and nesting are checked before it is
parsed into objects. YAML references are refused, because they can multiply the size of a document.
"""

import math
from collections.abc import Iterator, Mapping

import yaml

from controller.claimtemplates.templates import InvalidTemplates, VolumeClaimTemplate, parse_templates

TEMPLATES_ANNOTATION = "larder.dev/volume-claim-templates"
MAX_BYTES = 32 * 1024
MAX_VALUES = 2000
MAX_DEPTH = 16
_MAX_INTEGER = 2**63 - 1
_WHERE = f"annotation {TEMPLATES_ANNOTATION}"
_HOW = "write a list of PersistentVolumeClaims with metadata and spec, in JSON or YAML"


def read_templates(annotations: Mapping[str, str]) -> tuple[VolumeClaimTemplate, ...]:
    """Return the templates in the annotations of a pod; none if it has no such annotation. Raises InvalidTemplates."""
    if TEMPLATES_ANNOTATION not in annotations:
        return ()
    text = annotations[TEMPLATES_ANNOTATION]
    if (size := len(text.encode())) > MAX_BYTES:
        raise InvalidTemplates(f"{_WHERE}: {size} bytes; at most {MAX_BYTES} are allowed")
    try:
        _check(yaml.parse(text, Loader=yaml.CSafeLoader))
        written = yaml.load(text, yaml.CSafeLoader)
    except (yaml.YAMLError, ValueError, TypeError) as error:  # ValueError: for example a date that does not exist
        first = str(error).strip().partition("\n")[0][:200]
        raise InvalidTemplates(f"{_WHERE} is neither JSON nor YAML that Larder accepts: {first}; {_HOW}") from error
    if problem := next(_foreign_values(written), ""):
        raise InvalidTemplates(f"{_WHERE}: {problem}; put quotes around it")
    templates = parse_templates(written, _WHERE)
    if not templates:
        raise InvalidTemplates(f"{_WHERE}: the list is empty; {_HOW}, or remove the annotation")
    return templates


def _check(events: Iterator[yaml.Event]) -> None:
    """Raise ValueError unless this is one small document without references and tags."""
    depth = values = documents = 0
    for event in events:
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise ValueError("anchors and aliases (& and *) are not allowed")
        if getattr(event, "tag", None):
            raise ValueError("tags (!) are not allowed")
        documents += isinstance(event, yaml.DocumentStartEvent)
        values += isinstance(event, yaml.NodeEvent)
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if documents > 1:
            raise ValueError("more than one document")
        if values > MAX_VALUES or depth > MAX_DEPTH:
            raise ValueError(f"more than {MAX_VALUES} values, or nested more than {MAX_DEPTH} levels deep")


def _foreign_values(written: object) -> Iterator[str]:
    """Yield values that JSON cannot represent, such as dates, and keys that are not strings."""
    match written:
        case dict():
            for key, value in written.items():
                if not isinstance(key, str):
                    yield f"the key {_shown(key)} is not a string"
                yield from _foreign_values(value)
        case list():
            for item in written:
                yield from _foreign_values(item)
        case bool() | str() | None:
            pass
        case int() if abs(written) <= _MAX_INTEGER:
            pass
        case float() if math.isfinite(written):
            pass
        case _:
            yield f"{_shown(written)} is not a value of JSON"


def _shown(value: object) -> str:
    """Return a value for a message; Python refuses to print very large integers."""
    if isinstance(value, int) and abs(value) > _MAX_INTEGER:
        return f"an integer of {value.bit_length()} bits"
    return repr(str(value)[:60])
