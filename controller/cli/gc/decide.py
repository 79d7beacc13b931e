"""Which claims are orphaned, and which of those may be deleted."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import assert_never


@dataclass(frozen=True, slots=True)
class LiveOwner:
    """The object that a claim belongs to exists."""


@dataclass(frozen=True, slots=True)
class GoneOwner:
    """No owner exists any more; `title` describes the last one."""

    title: str


@dataclass(frozen=True, slots=True)
class UnknownOwner:
    """The owner could not be read; `reason` says why."""

    title: str
    reason: str


Owner = LiveOwner | GoneOwner | UnknownOwner


@dataclass(frozen=True, slots=True)
class ObservedClaim:
    """A claim with Larder's labels.

    Args:
        namespace: Its namespace.
        name: Its name.
        size: The storage that it has or requests.
        owner: What it belongs to.
        deleting: Whether it is being deleted.
        mounted_by: Names of the pods of the namespace that mount it and have not ended.
    """

    namespace: str
    name: str
    uid: str
    resource_version: str
    size: str
    owner: Owner
    deleting: bool = False
    mounted_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OrphanedClaim:
    """A claim whose owner is gone or cannot be read; it is kept if there is a `keep_reason`."""

    claim: ObservedClaim
    owner: str
    keep_reason: str = ""


def orphaned_claims(claims: Iterable[ObservedClaim]) -> list[OrphanedClaim]:
    """Return the claims that have no owner, or may have none, ordered by name."""
    found = (_orphaned(claim) for claim in claims)
    return sorted((o for o in found if o is not None), key=lambda o: (o.claim.namespace, o.claim.name))


def _orphaned(claim: ObservedClaim) -> OrphanedClaim | None:
    match claim.owner:
        case LiveOwner():
            return None
        case UnknownOwner(title, reason):
            return OrphanedClaim(claim, title, reason)
        case GoneOwner(title):
            return OrphanedClaim(claim, title, _keep_reason(claim))
        case _:
            assert_never(claim.owner)


def _keep_reason(claim: ObservedClaim) -> str:
    if claim.mounted_by:
        more = f" and {len(claim.mounted_by) - 1} more" if len(claim.mounted_by) > 1 else ""
        return f"mounted by pod {claim.mounted_by[0]}{more}"
    return "is being deleted" if claim.deleting else ""
