"""How long a revision that no longer serves is held for pods without a node."""

from controller.state.models.retired_revisions import HELD_S, RetiredRevisions
from tests.builders.clock import Clock
from tests.builders.demands import demand

OLD = ("m", "r0")


def held(clock: Clock, *, needed: bool = True) -> RetiredRevisions:
    return RetiredRevisions(clock, lambda _: needed)


def test_the_hold_time_counts_from_the_change_of_the_serving_revision() -> None:
    clock = Clock()
    revisions = held(clock)
    revisions.on_change(demand("m", serving="r0"), demand("m", serving="r1"))
    clock.now += 100
    assert revisions.left_s(OLD) == HELD_S - 100
    clock.now += HELD_S
    assert revisions.left_s(OLD) == 0
    assert revisions.left_s(OLD) == 0


def test_nothing_is_held_if_no_pod_needs_it() -> None:
    assert held(Clock(), needed=False).left_s(OLD) == 0


def test_the_hold_time_counts_from_the_first_request_if_no_change_was_seen() -> None:
    clock = Clock()
    revisions = held(clock)
    assert revisions.left_s(OLD) == HELD_S
    clock.now += 1
    assert revisions.left_s(OLD) == HELD_S - 1


def test_the_hold_time_restarts_if_the_revision_served_again_or_the_model_was_deleted() -> None:
    clock = Clock()
    revisions = held(clock)
    revisions.on_change(demand("m", serving="r0"), demand("m", serving="r1"))
    clock.now += HELD_S
    revisions.on_change(demand("m", serving="r1"), demand("m", serving="r0"))
    revisions.on_change(demand("m", serving="r0"), demand("m", serving="r1"))
    assert revisions.left_s(OLD) == HELD_S
    clock.now += HELD_S
    revisions.on_change(demand("m", serving="r1"), None)
    assert revisions.left_s(OLD) == HELD_S


def test_a_replaced_revision_counts_as_recent_for_the_hold_time() -> None:
    clock = Clock()
    revisions = held(clock, needed=False)
    revisions.on_change(demand("m", serving="r0"), demand("m", serving="r1"))
    clock.now += HELD_S - 1
    assert revisions.is_recent(OLD)
    clock.now += 1
    assert not revisions.is_recent(OLD)
