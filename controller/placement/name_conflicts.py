"""Which of several objects with one model id prevails: the oldest."""

from collections.abc import Iterable, Sequence

from controller.placement.demand import Demand
from shared.names import short_id


def winners(demands: Iterable[Demand]) -> dict[str, Demand]:
    """Return the oldest demand that is not being deleted for each id as nodes see it; its source wins."""
    first: dict[str, Demand] = {}
    for demand in sorted(demands, key=lambda d: d.age):
        if demand.uri and not demand.deleting:
            first.setdefault(short_id(demand.id), demand)
    return first


def difference(demand: Demand, other: Demand) -> str:
    """Return how an older object of the same id differs, for messages."""
    if demand.id != other.id:
        return f"a name that nodes shorten to {short_id(demand.id)!r}, as they do this one"
    return f"a different source ({other.uri})" if demand.uri != other.uri else "a different selection of its files"


def conflict_of(demand: Demand, same_id: Sequence[Demand]) -> Demand | None:
    """Return the older demand that uses the same id for another source or other files, or None.

    Nodes know a long id by a shortened name, so another id that shortens to the same name counts as the same id.
    """
    winner = winners(same_id).get(short_id(demand.id))
    if winner is None or winner.uid == demand.uid or (winner.id == demand.id and winner.wants_same_as(demand)):
        return None
    return winner
