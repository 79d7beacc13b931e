"""A collection of the API server that is followed."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from shared.api.kinds import Definition
from shared.kube.objects import Object
from shared.kube.reflector import Sink

T = TypeVar("T", bound=Object)


@dataclass(frozen=True, slots=True, eq=False)
class Informer(Generic[T]):
    """What to follow, and the sink that is kept equal to it.

    Args:
        path: Of the collection.
        kind: The Struct of an object.
        sink: Such as a cache.
        definition: Of a kind that may have no CustomResourceDefinition yet: following begins when it has one.
        label_selector: Only objects with these labels.
        name: In metrics and logs; the last segment of the path where empty.
        waited_for: Whether decisions need its list: a replica is not ready before, and does not stand for election.
    """

    path: str
    kind: type[T]
    sink: Sink[T]
    definition: Definition | None = None
    label_selector: str = ""
    name: str = ""
    waited_for: bool = True

    @property
    def resource(self) -> str:
        """Its name in metrics and logs."""
        return self.name or self.path.rpartition("/")[2]
