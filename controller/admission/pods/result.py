"""The result of each of a pod's requests for a model, and of all of them together."""

from dataclasses import dataclass

from controller.admission.catalog.port import CatalogModel
from controller.admission.pods.pod_annotations import record_not_cached
from shared.json_object import Json


@dataclass(frozen=True, slots=True)
class InjectionResult:
    """A model's id and revision with the volume that provides it, or neither, and a message for the pod's creator.

    `restricts_nodes`: the model restricts the pod's nodes. `unread` is a cache that was not used because its files are
    unknown.
    """

    model: tuple[str, str] | None = None
    volume: Json | None = None
    restricts_nodes: bool = False
    warnings: tuple[str, ...] = ()
    unread: CatalogModel | None = None


@dataclass(frozen=True, slots=True)
class PodChanges:
    """The patch, the warnings for the pod's creator, and a cache whose files must be read for a better decision."""

    patch: tuple[Json, ...] = ()
    warnings: tuple[str, ...] = ()
    unread: CatalogModel | None = None


def left_alone(draft: Json, reason: str, unread: CatalogModel | None = None) -> InjectionResult:
    """Record on the pod why nothing was injected, and return that as a warning."""
    return InjectionResult(warnings=(record_not_cached(draft, reason),), unread=unread)
