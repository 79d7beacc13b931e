"""The declaration of an informer."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from shared.api.kinds import Definition
from shared.kube.objects import Object
from shared.kube.reflector import Sink

T = TypeVar("T", bound=Object)


@dataclass(frozen=True, slots=True, eq=False)
class Informer(Generic[T]):
    """A collection to watch, and the sink to keep in sync with it.

    Args:
        path: API path of the collection.
        kind: Struct to decode objects into.
        sink: Receives the objects, such as a cache.
        definition: CustomResourceDefinition of the kind, if it may not exist yet; watching starts once it does.
        label_selector: Limits the collection to objects with these labels.
        field_selector: Limits the collection to objects with these fields.
        name: Name in metrics and logs; defaults to the last segment of the path.
        may_be_absent: Whether the API server may lack the kind, which then has no objects; it is asked again later.
        waited_for: Whether decisions need its list; until it is read, a replica is not ready and does not campaign.
    """

    path: str
    kind: type[T]
    sink: Sink[T]
    definition: Definition | None = None
    label_selector: str = ""
    name: str = ""
    waited_for: bool = True
    field_selector: str = ""
    may_be_absent: bool = False

    @property
    def resource(self) -> str:
        """Its name in metrics and logs."""
        return self.name or self.path.rpartition("/")[2]
