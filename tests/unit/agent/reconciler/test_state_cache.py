from dataclasses import replace
from pathlib import Path

from agent.reconciler.observation import Cause
from agent.reconciler.own_node import OwnNodeState
from agent.reconciler.retries import WHEN_SPACE_CHANGES_S
from agent.reconciler.state_cache import Space, StateCache, exclusive_bytes
from agent.store.download_plan import DownloadPlan
from agent.store.snapshot import CompletedFile, Snapshot
from shared.api.model_cache_node_group import LEAST_RECENTLY_USED
from shared.manifest import Manifest
from tests.builders.observations import entry, failure, model_node

KEY = ("llama", "r1")

BLOCK = 4096  # a snapshot takes whole blocks for its files, and three more


def short() -> StateCache:
    """A cache with one entry that does not fit, and one that failed for another reason."""
    cache = StateCache()
    other = entry("other")
    cache.set_model_node(model_node([entry(), other], storage_limit=10), 0.0)
    cache.failures = {KEY: failure(entry(), WHEN_SPACE_CHANGES_S), other.key: failure(other, 50.0)}
    return cache


def test_a_download_without_space_retries_when_the_limit_changes() -> None:
    cache = short()
    cache.set_model_node(model_node([entry(), entry("other")], storage_limit=10), 5.0)
    assert cache.failures[KEY].due_s == WHEN_SPACE_CHANGES_S
    cache.set_model_node(model_node([entry(), entry("other")], storage_limit=20), 6.0)
    assert cache.failures[KEY].due_s == 6.0
    assert cache.failures["other", "r1"].due_s == 50.0


def test_a_download_without_space_retries_when_space_may_have_been_freed() -> None:
    cache = short()
    cache.retry_shortages(7.0)
    assert cache.failures[KEY].due_s == 7.0


def test_state_of_models_without_an_entry_is_forgotten() -> None:
    cache = short()
    cache.skipped = {KEY}
    cache.set_model_node(model_node([entry("other")]), 8.0)
    assert list(cache.failures) == [("other", "r1")]
    assert cache.skipped == set()


def test_the_wait_for_the_model_node_restarts_if_the_node_is_replaced_or_tainted_again() -> None:
    def since_s(node: OwnNodeState, now_s: float) -> float:
        cache.set_node(node, now_s)
        assert cache.node == node
        return cache.startup_taint.since_s

    cache, first = StateCache(), OwnNodeState("1", startup_taint=True)
    assert since_s(first, 700.0) == 700.0
    assert since_s(first, 800.0) == 700.0
    second = OwnNodeState("2", startup_taint=True)
    assert since_s(second, 900.0) == 900.0
    assert since_s(OwnNodeState("2"), 1000.0) == 900.0
    assert since_s(second, 1100.0) == 1100.0


def test_nothing_is_forgotten_without_a_model_node() -> None:
    cache = short()
    cache.set_model_node(None, 8.0)
    assert len(cache.failures) == 2
    assert cache.storage_limit == 0


def test_a_download_without_space_retries_when_eviction_is_allowed() -> None:
    cache = short()
    cache.set_model_node(model_node([entry()], storage_limit=10, eviction_policy=LEAST_RECENTLY_USED), 6.0)
    assert cache.failures[KEY].due_s == 6.0


def snapshot(name: str, **sizes: int) -> Snapshot:
    files = tuple(CompletedFile(path, size, sha256=path) for path, size in sizes.items())
    return Snapshot(name, "r1", "hf://o/m", Path(name), "d" * 64, files, sum(sizes.values()))


def test_removing_a_snapshot_frees_only_the_bytes_it_does_not_share() -> None:
    held = {("a", "r1"): snapshot("a", shared=100, own=7), ("b", "r1"): snapshot("b", shared=100)}
    assert exclusive_bytes(held) == {("a", "r1"): 4 * BLOCK, ("b", "r1"): 0}
    cache = StateCache()
    cache.set_held(held)
    assert cache.frees == {("a", "r1"): 4 * BLOCK, ("b", "r1"): 0}


PLAN = DownloadPlan(Manifest("hf://o/m", "r1", ()))


def test_unfinished_files_may_be_dropped_only_if_the_node_may_evict_and_all_plans_are_known() -> None:
    cache = StateCache()
    assert cache.unfinished_to_keep() is None
    cache.set_model_node(model_node([entry()]), 0.0)
    cache.plans = {KEY: PLAN}
    assert cache.unfinished_to_keep() is None  # the policy is Never
    cache.set_model_node(model_node([entry(), entry("here")], eviction_policy=LEAST_RECENTLY_USED), 0.0)
    assert cache.unfinished_to_keep() is None  # the plan of the second is not known
    cache.set_held({("here", "r1"): snapshot("here", a=1)})
    assert cache.unfinished_to_keep() == [PLAN]
    cache.set_held({("here", "r1"): replace(snapshot("here", a=1), damaged=("a",))})
    assert cache.unfinished_to_keep() is None


def test_a_download_that_is_no_longer_wanted_lets_others_retry() -> None:
    cache = short()
    cache.set_model_node(model_node([entry()], storage_limit=10), 6.0)
    assert cache.failures[KEY].due_s == 6.0


def test_forgetting_a_plan_lets_waiting_downloads_retry() -> None:
    cache = short()
    cache.plans = {("given-up", "r1"): PLAN}
    cache.set_model_node(model_node([entry(), entry("other")], storage_limit=10), 6.0)
    assert (cache.failures[KEY].due_s, cache.plans) == (6.0, {})


def waiting(shortage: int, space: Space) -> StateCache:
    """A cache with an entry that lacks `shortage` bytes, after the disk was measured."""
    cache = StateCache()
    cache.set_model_node(model_node([entry()], storage_limit=10), 0.0)
    cache.set_space(space, 0.0)
    found = failure(entry(), WHEN_SPACE_CHANGES_S, "InsufficientStorage")
    cache.failures = {KEY: replace(found, cause=Cause("InsufficientStorage", "need", shortage))}
    return cache


def test_a_measurement_without_enough_new_space_triggers_no_retry() -> None:
    cache = waiting(500, Space(used=100, disk_free=1000, floor=50))
    for now_s, space in enumerate((Space(100, disk_free=1499, floor=50), Space(200, disk_free=900, floor=50))):
        cache.set_space(space, now_s)
        assert cache.failures[KEY].due_s == WHEN_SPACE_CHANGES_S


def test_a_waiting_download_retries_when_files_were_removed_from_the_store() -> None:
    cache = waiting(500, Space(used=100, disk_free=1000))
    cache.set_space(Space(used=120, disk_free=1000), 3.0)
    cache.set_space(Space(used=110, disk_free=1000), 6.0)
    assert cache.failures[KEY].due_s == 6.0


def test_a_waiting_download_retries_when_the_disk_has_gained_what_it_lacked() -> None:
    cache = waiting(500, Space(disk_free=1000))
    cache.note_free_space(400)
    cache.set_space(Space(disk_free=900), 6.0)
    assert cache.failures[KEY].due_s == 6.0


def test_a_waiting_download_retries_when_the_floor_is_lowered() -> None:
    cache = waiting(500, Space(disk_free=1000, floor=900))
    cache.set_space(Space(disk_free=1000, floor=400), 6.0)
    assert cache.failures[KEY].due_s == 6.0


def test_a_download_short_of_much_space_retries_once_the_shortage_shrinks_by_a_step() -> None:
    cache = waiting(100 * 2**30, Space(disk_free=0))
    cache.set_space(Space(disk_free=5 * 2**30 - 1), 5.0)
    assert cache.failures[KEY].due_s == WHEN_SPACE_CHANGES_S
    cache.set_space(Space(disk_free=5 * 2**30), 6.0)
    assert cache.failures[KEY].due_s == 6.0


def test_a_failed_reservation_is_retried_after_five_minutes_at_the_latest() -> None:
    cache = waiting(0, Space(used=100))
    cache.set_space(Space(used=100), 299.0)
    assert cache.failures[KEY].due_s == WHEN_SPACE_CHANGES_S
    cache.set_space(Space(used=100), 300.0)
    assert cache.failures[KEY].due_s == 300.0


def test_received_bytes_count_before_the_next_measurement_of_the_disk() -> None:
    cache = StateCache(space=Space(used=60, disk_free=100))
    cache.set_held({("a", "r1"): snapshot("a", shared=40, own=7)})
    cache.add_snapshot(("b", "r1"), snapshot("b", shared=40, large=50))
    assert (cache.space.used, cache.space.disk_free) == (97, 63)
    assert cache.frees == {("a", "r1"): 4 * BLOCK, ("b", "r1"): 4 * BLOCK}


def test_received_bytes_are_not_counted_twice() -> None:
    cache = StateCache(space=Space(used=120, disk_free=100))
    cache.add_snapshot(KEY, snapshot("llama", large=50))
    assert (cache.space.used, cache.space.disk_free) == (120, 100)
