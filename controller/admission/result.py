"""What came of one thing that a pod asked for."""

from dataclasses import dataclass

from controller.admission.catalog import CatalogModel
from controller.admission.marks import mark_not_cached
from controller.admission.pod_annotations import Json


@dataclass(frozen=True, slots=True)
class InjectionResult:
    """A model's id and revision and the volume that carries it, or neither, and words for the pod's creator.

    `unread` is the cache that could not be judged, as its files are not known yet.
    """

    model: tuple[str, str] | None = None
    volume: Json | None = None
    selects: bool = False
    warnings: tuple[str, ...] = ()
    unread: CatalogModel | None = None


def left_alone(draft: Json, why: str, unread: CatalogModel | None = None) -> InjectionResult:
    """Return that nothing was given, and say so on the pod."""
    return InjectionResult(warnings=(mark_not_cached(draft, why),), unread=unread)
