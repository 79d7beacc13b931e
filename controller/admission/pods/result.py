"""The result of one request of a pod."""

from dataclasses import dataclass

from controller.admission.catalog.port import CatalogModel
from controller.admission.pods.pod_annotations import Json, record_not_cached


@dataclass(frozen=True, slots=True)
class InjectionResult:
    """A model's id and revision with the volume that provides it, or neither, and a message for the pod's creator.

    `unread` is the cache that could not be judged because its files are not known yet.
    """

    model: tuple[str, str] | None = None
    volume: Json | None = None
    selects: bool = False
    warnings: tuple[str, ...] = ()
    unread: CatalogModel | None = None


def left_alone(draft: Json, reason: str, unread: CatalogModel | None = None) -> InjectionResult:
    """Return that nothing was injected, and record the reason on the pod."""
    return InjectionResult(warnings=(record_not_cached(draft, reason),), unread=unread)
