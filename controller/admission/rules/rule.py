"""What admission says of the objects of one kind."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from controller.admission.catalog import Catalog
from controller.admission.review import Request
from controller.admission.settings import AdmissionSettings
from shared.api.kinds import Definition

Found = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Rule:
    """Each function raises LarderError where it refuses.

    Args:
        definition: The kind.
        check_write: Called for an object whose spec is new; returns warnings.
        check_delete: Called before an object goes that is not being deleted yet.
        advise: Returns warnings about every write, also of one that leaves the spec as it was.
    """

    definition: Definition
    check_write: Callable[[Found, Catalog, AdmissionSettings], Awaitable[list[str]]]
    check_delete: Callable[[Request, Catalog], Awaitable[None]]
    advise: Callable[[Found], list[str]] = lambda _: []
