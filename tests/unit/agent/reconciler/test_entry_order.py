"""Namespaces take turns on a node."""

from hypothesis import given
from hypothesis import strategies as st

from agent.reconciler.actions import DownloadEntry, FetchManifest
from agent.reconciler.decide import decide
from agent.reconciler.entry_order import by_rank, by_turn
from agent.reconciler.observation import Downloading, FetchingManifest, Key, Reserved, Work
from shared.names import namespace_of
from tests.builders.observations import DIGEST, entry, observation


def test_one_namespace_with_many_models_and_the_highest_priority_does_not_go_before_all_others() -> None:
    many = [entry(f"a_m{i:04}", since="2026-01-01", priority=1_000_000_000) for i in range(1000)]
    late = [entry("b_only", since="2026-06-01"), entry("cluster", since="2026-06-02")]
    order = [e.id for e in by_turn(observation(*many, *late), [*many, *late], FetchingManifest)]
    assert set(order[:3]) >= {"b_only", "cluster"}


def test_running_downloads_count_as_used_slots() -> None:
    running, waiting = [entry("a_1"), entry("a_2")], [entry("a_3", priority=9), entry("b_1", since="2026-06-01")]
    works: dict[Key, Work] = {e.key: Downloading(DIGEST) for e in running}
    works.update({e.key: Reserved(DIGEST) for e in waiting})
    started = [
        a.entry.id
        for a in decide(observation(*running, *waiting, works=works, slots=3))
        if isinstance(a, DownloadEntry)
    ]
    assert started == ["b_1"]


def test_models_that_pods_wait_for_come_first_whatever_their_priority() -> None:
    entries = [entry("a_1", priority=9), entry("a_2"), entry("a_3", awaited=True)]
    assert [e.id for e in by_turn(observation(*entries), entries, FetchingManifest)] == ["a_3", "a_1", "a_2"]


def test_a_namespace_waiting_for_many_models_alternates_with_others() -> None:
    many = [entry(f"a_m{i:03}", priority=9, awaited=True) for i in range(100)]
    others = [entry("b_m"), entry("c_m"), entry("d_m", awaited=True)]
    order = [e.id for e in by_turn(observation(*many, *others), [*many, *others], FetchingManifest)]
    assert set(order[:4]) == {"a_m000", "b_m", "c_m", "d_m"}
    assert set(order[:2]) == {"a_m000", "d_m"}


def test_space_is_given_by_priority_even_if_pods_wait() -> None:
    entries = [entry("a_awaited", awaited=True), entry("b_first", priority=1)]
    assert [e.id for e in by_rank(observation(*entries), entries)] == ["b_first", "a_awaited"]


def test_entries_that_cannot_start_do_not_delay_a_ready_one_of_their_namespace() -> None:
    stuck, ready = [entry(f"a_m{i:03}", since="2026-01-01") for i in range(300)], entry("a_ready", since="2026-02-01")
    others = [entry(f"b_m{i:03}", since="2026-03-01") for i in range(200)]
    works: dict[Key, Work] = {e.key: Reserved(DIGEST) for e in (ready, *others)}
    actions = decide(observation(*stuck, ready, *others, works=works, slots=2))
    assert {a.entry.id for a in actions if isinstance(a, DownloadEntry)} == {"a_ready", "b_m000"}


def test_only_a_few_manifests_are_requested_at_a_time_and_every_namespace_gets_a_share() -> None:
    entries = [entry(f"a_m{i:04}") for i in range(500)] + [entry("b_m"), entry("c_m")]
    asked = [a.entry.id for a in decide(observation(*entries)) if isinstance(a, FetchManifest)]
    assert len(asked) == 4
    assert {"b_m", "c_m"} <= set(asked[:3])
    works: dict[Key, Work] = {(name, "r1"): FetchingManifest(DIGEST) for name in asked}
    assert not [a for a in decide(observation(*entries, works=works)) if isinstance(a, FetchManifest)]


@given(st.lists(st.tuples(st.sampled_from(["", "a", "b", "c"]), st.integers(0, 3)), max_size=40), st.randoms())
def test_every_entry_is_served_once_in_any_order_of_the_list(wishes: list[tuple[str, int]], random: object) -> None:
    entries = [entry(f"{ns}_m{i}" if ns else f"m{i}", priority=p) for i, (ns, p) in enumerate(wishes)]
    shuffled = list(entries)
    random.shuffle(shuffled)  # type: ignore[attr-defined]  # hypothesis does not name the type
    order = by_turn(observation(*entries), shuffled, FetchingManifest)
    assert order == by_turn(observation(*entries), entries, FetchingManifest)
    assert sorted(e.id for e in order) == sorted(e.id for e in entries)
    names = {namespace_of(e.id) for e in entries}
    seen = [namespace_of(e.id) for e in order[: len(names) + 3]]  # the cluster's models have four turns in a round
    assert set(seen) == names
