"""What the decisions of several kinds end with."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Again:
    """Look again after some time, whatever happens."""

    after_s: float


@dataclass(frozen=True, slots=True)
class WriteSpec:
    """Fill fields of the spec; None takes one away that was ours."""

    fields: Mapping[str, Any]
