"""Actions that several reconcilers share."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Requeue:
    """Requeue after a delay, whatever else happens."""

    after_s: float


@dataclass(frozen=True, slots=True)
class WriteSpec:
    """Set fields of the spec; None removes a field that Larder set."""

    fields: Mapping[str, Any]
