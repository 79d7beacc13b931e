"""Which models are evicted to make space, and which return."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.placement.eviction import (
    Candidate,
    Need,
    assess,
    available_bytes,
    entries_that_fit,
    eviction_order,
    needs,
    plan_eviction,
)
from shared.api.model_node import Claim, Entry, EntryStatus, ModelNodeStatus

NOW = datetime(2026, 6, 1, 12, 0, 0, tzinfo=UTC)
CLAIMS = [Claim(kind="ClusterModelCache", name="m", uid="u")]
NEED = Need(("new", "r1"), 0, 100)
HOUR_S = 3600.0


def ago(**time: float) -> str:
    return (NOW - timedelta(**time)).strftime("%Y-%m-%dT%H:%M:%SZ")


def entry(name: str = "m", **fields: Any) -> Entry:
    return Entry(id=name, revision="r1", size=50, **({"claims": CLAIMS} | fields))


def ready(name: str = "m", frees: int = 50, since: str = ago(days=1), **fields: Any) -> EntryStatus:
    reported: dict[str, Any] = {"phase": "Ready", "observed": "Present", "since": since} | fields
    return EntryStatus(id=name, revision="r1", frees=frees, **reported)


def short(name: str, shortage: int = 100) -> EntryStatus:
    return EntryStatus(
        id=name, revision="r1", phase="Failed", observed="Present", reason="InsufficientStorage", shortage=shortage
    )


def weighed(given: Entry, status: EntryStatus | None, *users: str, need: Need = NEED) -> Candidate:
    return assess(given, status, users, need, NOW, HOUR_S)


def test_an_idle_model_may_be_evicted() -> None:
    assert weighed(entry(), ready()).block_reason == ""


@pytest.mark.parametrize(
    ("given_entry", "status", "why"),
    [
        (entry(pinned=True), ready(), "pinned"),
        (entry(in_use=True), ready(), "in use"),
        (entry(claims=[]), ready(), "reserved"),
        (entry(priority=1), ready(), "higher"),
        (entry("new"), ready("new"), "same model"),
        (entry(), ready(frees=0), "share all of its files"),
        (entry(), ready(since=ago(minutes=59)), "not idle long enough"),
        (entry(last_used=ago(minutes=59)), ready(), "not idle long enough"),
        (entry(), ready(since=""), "not idle long enough"),
        (entry(), ready(since="yesterday"), "not idle long enough"),
        (entry(), ready(phase="Downloading"), "not Ready (Downloading)"),
        (entry(), ready(phase="Repairing"), "not Ready (Repairing)"),
        (entry(state="Draining"), ready(phase="Draining"), "not Ready (Draining)"),
        (entry(state="Absent", evicted_for="x"), ready(phase="Absent"), "evicted for x"),
        (entry(), None, "not Ready (Pending)"),
    ],
)
def test_a_model_that_cannot_be_evicted_has_a_reason(given_entry: Entry, status: EntryStatus | None, why: str) -> None:
    assert why in weighed(given_entry, status).block_reason


def test_the_pods_that_use_a_model_are_named() -> None:
    assert weighed(entry(), ready(), "ns/a", "ns/b").block_reason == "in use by ns/a, ns/b"


def test_a_lower_priority_need_not_be_idle_for_long() -> None:
    assert weighed(entry(priority=-1), ready(since=ago(seconds=1))).block_reason == ""


def test_a_model_of_equal_priority_becomes_evictable_after_an_hour() -> None:
    assert weighed(entry(), ready(since=ago(minutes=50))).due_s == 600
    assert weighed(entry(), ready()).due_s is None


def test_the_last_use_counts_from_its_end_or_from_the_arrival() -> None:
    used = weighed(entry("used", last_used=ago(hours=2)), ready("used"))
    fresh = weighed(entry("fresh"), ready("fresh", since=ago(hours=3)))
    low = weighed(entry("low", priority=-1, last_used=ago(minutes=1)), ready("low"))
    assert [c.entry.id for c in eviction_order([used, fresh, low])] == ["low", "fresh", "used"]


def test_an_insufficient_plan_evicts_nothing() -> None:
    plan = plan_eviction(101, [weighed(entry(), ready(frees=50)), weighed(entry("b"), ready("b", frees=50))])
    assert (plan.victims, plan.evictable_bytes) == ((), 100)


def test_a_smaller_victim_is_spared_if_a_larger_one_frees_enough() -> None:
    small, large = weighed(entry("a"), ready("a", frees=5)), weighed(entry("b"), ready("b", frees=100))
    assert [c.entry.id for c in plan_eviction(100, [small, large]).victims] == ["b"]


candidates = st.lists(
    st.builds(
        lambda i, priority, frees, idle, stays: Candidate(
            entry(f"m{i}", priority=priority), frees, ago(hours=idle), stays
        ),
        st.integers(0, 99), st.integers(-2, 2), st.integers(0, 60), st.integers(0, 9),
        st.sampled_from(["", "", "pinned"]),
    ),
    max_size=8,
    unique_by=lambda c: c.entry.key,
)  # fmt: skip


@given(candidates, st.integers(1, 200))
def test_a_plan_frees_enough_and_has_no_needless_victim(found: list[Candidate], shortage: int) -> None:
    plan = plan_eviction(shortage, found)
    freed = sum(c.frees_bytes for c in plan.victims)
    assert plan.evictable_bytes == sum(c.frees_bytes for c in found if not c.block_reason)
    assert not any(c.block_reason for c in plan.victims)
    if plan.evictable_bytes < shortage:
        assert plan.victims == ()
    else:
        assert freed >= shortage
        assert all(freed - c.frees_bytes < shortage for c in plan.victims)


@given(candidates, st.integers(1, 200), st.randoms())
def test_a_plan_does_not_depend_on_the_order_of_a_list(found: list[Candidate], shortage: int, random: Any) -> None:
    shuffled = random.sample(found, len(found))
    assert plan_eviction(shortage, shuffled) == plan_eviction(shortage, found)


@given(candidates, st.integers(1, 200))
def test_the_most_valuable_victim_cannot_be_replaced_by_less_valuable_ones(
    found: list[Candidate], shortage: int
) -> None:
    """The most valuable victim could not be replaced by the candidates before it."""
    victims = plan_eviction(shortage, found).victims
    if victims:
        able = eviction_order(found)
        before = able[: able.index(victims[-1])]
        assert sum(c.frees_bytes for c in before) < shortage


def test_models_without_space_are_ordered_by_priority_then_age() -> None:
    entries = [entry("late", since="2"), entry("soon", since="1"), entry("high", priority=5, since="3"), entry("fits")]
    statuses = {s.key: s for s in (short("late"), short("soon"), short("high", 7), ready("fits"))}
    assert [n.key[0] for n in needs(entries, statuses, 0)] == ["high", "soon", "late"]
    assert needs(entries, statuses, 0)[0].shortage_bytes == 7


def test_a_shortage_counts_only_for_a_present_entry_of_the_spec() -> None:
    old = short("m")
    assert needs([entry(state="Draining")], {old.key: old}, 0) == []
    assert needs([entry()], {}, 0) == []


def test_available_bytes_exclude_used_and_reserved_space() -> None:
    status = ModelNodeStatus(used=100, disk_free=500, floor=50, entries=[ready("here", frees=90), short("short")])
    entries = [entry("here"), entry("short"), entry("unheard"), entry("gone", state="Absent", evicted_for="here")]
    assert available_bytes(entries, status, 300) == 300 - 100 - 50 - 50
    assert available_bytes(entries, status, 0) == 500 - 50 - 100


def test_available_bytes_follow_from_the_entries_if_the_usage_figures_lag() -> None:
    arrived = ModelNodeStatus(used=10, disk_free=500, floor=50, entries=[ready("a", frees=60), ready("b", frees=40)])
    assert available_bytes([entry("a"), entry("b")], arrived, 110) == 10
    assert available_bytes([entry("a"), entry("b")], arrived, 0) == 500 - 50 - 90


def gone(name: str, size: int, **fields: Any) -> Entry:
    return replace_size(entry(name, state="Absent", evicted_for="x", **fields), size)


def replace_size(given_entry: Entry, size: int) -> Entry:
    return Entry(**{f: getattr(given_entry, f) for f in given_entry.__struct_fields__} | {"size": size})


def test_an_evicted_model_returns_only_with_five_percent_of_space_to_spare() -> None:
    assert entries_that_fit([gone("a", 100)], 104, alone=False) == []
    assert [e.id for e in entries_that_fit([gone("a", 100)], 105, alone=False)] == ["a"]
    assert [e.id for e in entries_that_fit([gone("a", 100)], 100, alone=True)] == ["a"]
    assert entries_that_fit([gone("a", 101)], 100, alone=True) == []


def test_evicted_models_return_by_priority_and_last_use_as_far_as_they_fit() -> None:
    evicted = [gone("old", 40), gone("used", 40, last_used="2"), gone("high", 100, priority=1), gone("small", 10)]
    assert [e.id for e in entries_that_fit(evicted, 160, alone=False)] == ["high", "used", "small"]


@given(st.lists(st.integers(0, 100), max_size=6), st.integers(0, 300), st.booleans())
def test_returning_models_never_exceed_the_available_space(sizes: list[int], room: int, alone: bool) -> None:  # noqa: FBT001 - drawn
    back = entries_that_fit([gone(f"m{i}", size) for i, size in enumerate(sizes)], room, alone=alone)
    assert sum(e.size for e in back) <= room


def test_no_model_is_evicted_for_a_shortage_of_zero_bytes() -> None:
    assert plan_eviction(0, [weighed(entry(), ready())]).victims == ()
    assert replace(NEED, shortage_bytes=0).priority == 0
