"""Conditions in the status of the objects that Larder manages. No input or output, no clock."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from shared.api.meta import ABNORMAL, RECONCILING, STALLED, Condition, condition_of

METADATA = "Metadata"
DRIFTED, REFRESHED, UPDATING, REMOVING = "Drifted", "Refreshed", "Updating", "Removing"
LARGER = "LargerThanDeclared"
_MAX_MESSAGE = 2048
_OURS = frozenset(("Ready", "Resolved", METADATA, DRIFTED, REFRESHED, UPDATING, REMOVING, LARGER))


@dataclass(frozen=True, slots=True)
class ConditionUpdate:
    """A condition without its timestamps."""

    kind: str
    status: str
    reason: str
    message: str


def is_transition(before: Condition | None, after: Condition) -> bool:
    """Return whether a condition is new, or has another status or reason, so that it gets an Event."""
    return before is None or (before.status, before.reason) != (after.status, after.reason)


def kstatus_condition(about: ConditionUpdate, *, stalled: bool) -> ConditionUpdate:
    """Return the Stalled or Reconciling condition of an object, with the reason and message of `about`."""
    return replace(about, kind=STALLED if stalled else RECONCILING, status="True")


def with_conditions(
    before: Sequence[Condition], wanted: Sequence[ConditionUpdate], stamp: str, generation: int
) -> list[Condition]:
    """Return the wanted conditions, plus all existing ones of other types.

    Existing conditions of Larder's own types are stamped with this generation, because they still hold.
    """
    ours = {update.kind for update in wanted} | set(ABNORMAL)
    kept = (c for c in before if c.type not in ours)
    return [
        *(_condition(before, update, stamp, generation) for update in wanted),
        *(msgspec.structs.replace(c, observed_generation=generation) if c.type in _OURS else c for c in kept),
    ]


def _condition(before: Sequence[Condition], update: ConditionUpdate, stamp: str, generation: int) -> Condition:
    old = condition_of(before, update.kind)
    since = old.last_transition_time if old and old.status == update.status else stamp
    return Condition(
        type=update.kind,
        status=update.status,
        reason=update.reason,
        message=update.message[:_MAX_MESSAGE],
        last_transition_time=since,
        observed_generation=generation,
    )
