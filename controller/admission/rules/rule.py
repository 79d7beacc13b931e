"""The interface of an admission rule for one kind."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from controller.admission.catalog.port import Catalog
from controller.admission.review import AdmissionRequest
from controller.admission.settings import AdmissionSettings
from shared.api.kinds import Definition

Found = Mapping[str, Any]


async def allow_deletion(_: AdmissionRequest, __: Catalog) -> None:
    """Allow every deletion."""


@dataclass(frozen=True, slots=True)
class AdmissionRule:
    """A rule; each function raises LarderError to reject the request.

    Args:
        definition: The kind.
        check_write: Called when an object's spec is new or changed; returns warnings.
        check_delete: Called before deletion, unless the object is already being deleted. By default the API server does
            not ask, so such objects may be deleted while this server is down.
        advise: Returns warnings for every write, including those that leave the spec unchanged.
    """

    definition: Definition
    check_write: Callable[[Found, Catalog, AdmissionSettings], Awaitable[list[str]]]
    check_delete: Callable[[AdmissionRequest, Catalog], Awaitable[None]] = allow_deletion
    advise: Callable[[Found], list[str]] = lambda _: []

    @property
    def operations(self) -> list[str]:
        """The operations that the API server sends for review."""
        return ["CREATE", "UPDATE", *(["DELETE"] if self.check_delete is not allow_deletion else [])]


def needs_check(obj: Mapping[str, Any], before: Mapping[str, Any] | None) -> bool:
    """Return whether a write needs validation: the object is not being deleted, and its spec changed."""
    if obj.get("metadata", {}).get("deletionTimestamp"):
        return False
    return before is None or obj.get("spec") != before.get("spec")
