"""Creates objects under names that only Larder may use; an object of another owner is never adopted or changed."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from shared.kube.collection import get_object
from shared.kube.errors import AlreadyExists, Refused
from shared.kube.objects import Object
from shared.kube.transport import Kube

T = TypeVar("T", bound=Object)
NAME_CONFLICT, NAME_TOO_LONG = "NameConflict", "NameTooLong"
_LONGEST_NAME = 253  # of a claim, a volume or a pod
_CONFLICT, _UNPROCESSABLE, _SHOWN = 409, 422, 60


class RefusedName(Refused):
    """An object cannot be created because of its name; `reason` is NameConflict or NameTooLong."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message, _CONFLICT if reason == NAME_CONFLICT else _UNPROCESSABLE)
        self._reason = reason

    @property
    def reason(self) -> str:
        """The stable word used in conditions and events."""
        return self._reason


def _check_name(kind: str, name: str) -> None:
    """Raise RefusedName if a name is too long for an object of this kind."""
    if len(name) > _LONGEST_NAME:
        raise RefusedName(
            NAME_TOO_LONG,
            f"the name of {kind} {name[:_SHOWN]}... has {len(name)} characters, and at most {_LONGEST_NAME} are "
            "allowed; create its owner under a shorter name",
        )


def name_taken(kind: str, name: str, advice: str, whose: str = "Larder's") -> RefusedName:
    """Return the error for a name that an object of another owner has."""
    return RefusedName(NAME_CONFLICT, f"{kind} {name} exists and is not {whose}; {advice}")


async def create_exclusively(
    kube: Kube,
    collection: str,
    body: Mapping[str, Any],
    found_as: type[T],
    is_ours: Callable[[T], bool],
    advice: str,
    whose: str = "Larder's",
) -> None:
    """Create an object, unless it exists and is ours.

    Args:
        kube: The connection.
        collection: Path of the collection.
        body: The object.
        found_as: Struct to decode an existing object of that name into.
        is_ours: Whether such an object is the one that we would create.
        advice: What to do if it is not.
        whose: The expected owner in the message, as a possessive.

    Raises:
        RefusedName: The name is too long, or an object of another owner has it.
        KubeError: The request failed.
    """
    kind, name = str(body["kind"]), str(body["metadata"]["name"])
    _check_name(kind, name)
    try:
        await kube.request("POST", collection, body=body)
    except AlreadyExists:
        found = await get_object(kube, f"{collection}/{name}", found_as)
        if found is None:
            raise  # it was deleted meanwhile
        if not is_ours(found):
            raise name_taken(kind, name, advice, whose) from None
