"""Namespaces share the memory for lists of files, and repairs and updates go on when it is full."""

from agent.reconciler.list_shares import HeldLists, why_refused
from agent.reconciler.observation import Key
from agent.store.list_size import ListSize

CAPACITY = 1000


def refused(size: int, identity: str, revision: str = "r1", **held: dict[Key, int]) -> str:
    return why_refused(HeldLists(CAPACITY, **held), (identity, revision), ListSize(7, size))


def models(namespace: str, *sizes: int) -> dict[Key, int]:
    return {(f"{namespace}_m{i}", "r1"): size for i, size in enumerate(sizes)}


def test_a_namespace_may_use_as_much_as_it_leaves_free() -> None:
    held = models("a", 200, 200)
    assert not refused(100, "a_new", snapshots=held)
    assert refused(101, "a_new", snapshots=held)
    assert not refused(101, "b_new", snapshots=held)


def test_downloads_count_like_complete_snapshots() -> None:
    assert refused(101, "a_new", snapshots=models("a", 200), downloads={("a_other", "r1"): 200})


def test_cluster_scoped_models_may_use_four_times_what_they_leave_free() -> None:
    assert not refused(100, "new", snapshots={("m", "r1"): 700})
    assert refused(101, "new", snapshots={("m", "r1"): 700})


def test_the_first_model_of_a_namespace_needs_only_room() -> None:
    assert not refused(400, "b_new", snapshots=models("a", 600))
    assert refused(401, "b_new", snapshots=models("a", 600))


def test_a_list_larger_than_all_memory_is_refused() -> None:
    assert refused(1001, "a_new")


def test_a_download_may_replace_its_own_list() -> None:
    assert not refused(500, "a_new", downloads={("a_new", "r1"): 400})


def test_an_update_with_no_more_files_is_admitted_beyond_the_share() -> None:
    held = models("a", 300, 300)
    assert not refused(300, "a_m0", "r2", snapshots=held)
    assert refused(301, "a_m0", "r2", snapshots=held)


def test_a_model_with_two_revisions_may_not_add_a_third_beyond_the_share() -> None:
    held = {("a_m", "r1"): 300, ("a_m", "r2"): 300}
    assert refused(300, "a_m", "r3", snapshots=held)
    assert refused(300, "a_m", "r3", snapshots={("a_m", "r1"): 300, ("a_x", "r1"): 100}, downloads={("a_m", "r2"): 300})


def test_only_a_few_models_of_a_namespace_are_updated_beyond_its_share() -> None:
    held = models("a", *[60] * 9)
    updating = {(identity, "r2"): 10 for identity, _ in list(held)[:8]}
    assert refused(60, "a_m8", "r2", snapshots=held, downloads=updating)
    assert not refused(60, "a_m8", "r2", snapshots=held, downloads=dict(list(updating.items())[:7]))


def test_repairs_have_memory_of_their_own() -> None:
    full = models("a", 500, 500)
    assert not refused(500, "a_m0", snapshots=full)
    assert not refused(60, "a_m0", snapshots=full, downloads={("a_m1", "r1"): 60})
    assert refused(66, "a_m0", snapshots=full, downloads={("a_m1", "r1"): 60})


def test_the_refusal_has_the_numbers_and_a_remedy() -> None:
    message = refused(300, "a_new", snapshots=models("a", 300, 200))
    for part in ("7 files", "300 B", "namespace a", "500 B", "(models: 2)", "1000 B", "memory limit"):
        assert part in message


def test_the_refusal_says_whether_memory_is_short_or_reserved() -> None:
    assert "only 500 B are still free" in refused(501, "a_new", snapshots=models("a", 300, 200))
    assert "500 B are still free, but reserved for others" in refused(300, "a_new", snapshots=models("a", 300, 200))
