"""Warnings about the annotations of models: plain functions of data."""

import re
from collections.abc import Mapping
from typing import Any

from controller.placement.demand_of_kind import DRIFT_ANNOTATION, FOLLOW, PIN_ANNOTATION, PRIORITY_ANNOTATION

_ANNOTATIONS = {  # the annotations that are checked: their valid values, as a pattern and in words
    PIN_ANNOTATION: (re.compile("true|false"), '"true", or leave it out'),
    PRIORITY_ANNOTATION: (re.compile(r"\s*[+-]?[0-9]+\s*"), 'a whole number, for example "10"'),
    DRIFT_ANNOTATION: (re.compile(f"{FOLLOW}|Manual"), f"{FOLLOW} or Manual"),
}


def annotation_warnings(obj: Mapping[str, Any]) -> list[str]:
    """Return a warning for each model annotation with an invalid value, which is ignored."""
    found: Mapping[str, str] = (obj.get("metadata") or {}).get("annotations") or {}
    return [
        f"metadata.annotations[{key}]: {found[key]!r} is ignored; write {expected}"
        for key, (pattern, expected) in _ANNOTATIONS.items()
        if key in found and not pattern.fullmatch(found[key])
    ]
