"""What removals and sweeps delete, and what they keep."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.store.snapshot import Snapshot
from agent.store.store import Store
from agent.store.tree import remove_tree
from agent.transfer.engine import FetchResult
from shared.errors import InsufficientStorage, StoreFailure, Unreachable
from shared.sources.memory import MemorySource
from tests.builders.capabilities import without_power_over_files
from tests.builders.stores import plan_of

FetchBlobs = Callable[..., FetchResult]
FetchModel = Callable[[MemorySource, Store, str], Snapshot]


def blobs(root: Path) -> int:
    return len(list((root / "blobs" / "sha256").iterdir()))


def test_files_are_removed_with_the_last_model_that_links_them(
    fetch_model: FetchModel, source: MemorySource, store: Store, root: Path
) -> None:
    one, two = fetch_model(source, store, "one"), fetch_model(source, store, "two")
    store.snapshots.remove("one", one.revision)
    assert store.snapshots.all() == [two]
    assert store.snapshots.check(two) == []
    store.snapshots.remove("two", two.revision)
    assert store.snapshots.all() == []
    assert blobs(root) == 0
    assert list((root / "models").iterdir()) == []


def test_a_removal_reports_every_byte_although_orphans_are_dropped_meanwhile(
    fetch_model: FetchModel, source: MemorySource, store: Store, root: Path
) -> None:
    one = fetch_model(source, store, "one")
    size_bytes = sum({f.sha256: f.size for f in one.files}.values())
    reported = list[int]()

    def freed(size_bytes: int) -> None:
        reported.append(size_bytes)
        assert store.blobs.drop_orphans() == 0

    store.snapshots.remove("one", one.revision, freed)
    assert (sum(reported), blobs(root)) == (size_bytes, 0)


def test_blobs_left_by_a_failed_removal_are_dropped_as_orphans(
    fetch_model: FetchModel, source: MemorySource, store: Store, root: Path
) -> None:
    one = fetch_model(source, store, "one")

    def stop(_: int) -> None:
        raise InterruptedError

    with pytest.raises(StoreFailure):
        store.snapshots.remove("one", one.revision, stop)
    assert store.blobs.drop_orphans() == len({f.sha256 for f in one.files}) - 1
    assert blobs(root) == 0


def test_removing_a_missing_snapshot_does_nothing(store: Store) -> None:
    store.snapshots.remove("llama", "0" * 40)
    assert store.snapshots.all() == []


def test_contents_of_a_removed_model_count_as_missing_again(
    fetch_model: FetchModel, source: MemorySource, store: Store
) -> None:
    other = MemorySource(source.files, repo="other/place")
    one = fetch_model(source, store, "one")
    fetch_model(other, store, "two")
    store.snapshots.remove("one", one.revision)
    assert store.space.missing_bytes(plan_of(source)) > 0  # they are stored, but only for the other source
    assert store.space.missing_bytes(plan_of(other)) == 0


def test_an_unfinished_download_keeps_its_verified_files_when_another_model_is_removed(
    fetch_model: FetchModel, fetch_blobs: FetchBlobs, source: MemorySource, store: Store
) -> None:
    one = fetch_model(source, store, "one")
    result = fetch_blobs(source, store)
    store.snapshots.remove("one", one.revision)
    assert store.space.missing_bytes(plan_of(source)) == 0
    assert store.snapshots.check(store.snapshots.commit(plan_of(source), "two", result.blobs)) == []


def test_a_sweep_removes_leftovers_of_a_kill_and_keeps_unfinished_files(
    fetch_model: FetchModel, fetch_blobs: FetchBlobs, source: MemorySource, store: Store, root: Path
) -> None:
    kept = fetch_model(source, store, "kept")
    gone = fetch_model(MemorySource({"a": b"abc"}, repo="test/gone"), store, "gone")
    gone.path.rename(gone.path.with_name(f".gone-{gone.revision}-0"))
    tmp = root / "models" / "half" / ".tmp-x"
    tmp.mkdir(parents=True)
    (tmp / "file").write_text("x")
    late = MemorySource({"b": b"0" * 1000}, repo="test/late")
    late.faults.truncate_at["b"] = 600
    with pytest.raises(Unreachable):
        fetch_blobs(late, store)
    store.recover()
    assert store.snapshots.all() == [kept]
    assert store.snapshots.check(kept) == []
    assert blobs(root) == len({f.sha256 for f in kept.files})
    assert not tmp.exists()
    assert store.space.missing_bytes(plan_of(late)) == 400


def test_a_sweep_keeps_the_blob_of_a_file_that_was_removed_from_a_snapshot(
    fetch_model: FetchModel, source: MemorySource, store: Store
) -> None:
    snapshot = fetch_model(source, store, "llama")
    snapshot.path.chmod(0o755)
    (snapshot.path / "model-00001-of-00002.safetensors").unlink()
    store.recover()
    assert store.space.missing_bytes(plan_of(source)) == 0


def test_a_discarded_download_leaves_no_files(
    fetch_blobs: FetchBlobs, source: MemorySource, store: Store, root: Path
) -> None:
    source.faults.truncate_at["model-00001-of-00002.safetensors"] = 2**20
    with pytest.raises(Unreachable):
        fetch_blobs(source, store)
    store.unfinished.discard(plan_of(source))
    assert list((root / "partial").iterdir()) == []
    assert blobs(root) == 0


def test_uncommitted_files_are_dropped_once_they_stay_idle_for_enough_rounds(
    fetch_blobs: FetchBlobs, source: MemorySource, store: Store, root: Path
) -> None:
    other = MemorySource({"a": b"abc"}, repo="other/place")
    fetch_blobs(source, store)
    fetch_blobs(other, store)
    count = len(list((root / "partial").iterdir()))
    assert store.unfinished.drop_idle([], rounds=2) == 0
    assert store.unfinished.drop_idle([], rounds=2) == 0
    (named,) = plan_of(other).contents()
    touched = next(p for p in (root / "partial").iterdir() if not p.name.startswith(named))
    touched.chmod(0o444)  # whatever the clock says, its state differs from the previous round
    assert store.unfinished.drop_idle([plan_of(other)], rounds=2) == count - 2
    assert {p.name.partition(".")[0] for p in (root / "partial").iterdir()} == {named, touched.name.partition(".")[0]}
    assert store.space.missing_bytes(plan_of(other)) == 0


def test_unreferenced_contents_are_dropped_at_once_under_pressure(
    fetch_model: FetchModel, fetch_blobs: FetchBlobs, source: MemorySource, store: Store, root: Path
) -> None:
    fetch_model(source, store, "kept")
    wanted, stray = MemorySource({"a": b"abc"}, repo="a/wanted"), MemorySource({"b": b"bcd"}, repo="a/stray")
    fetch_blobs(wanted, store)
    fetch_blobs(stray, store)
    lonely = store.blobs.path("0" * 64)
    lonely.write_bytes(b"of no snapshot")
    before = blobs(root)
    store.unfinished.drop_unreferenced([plan_of(wanted)])
    assert blobs(root) == before - 2
    assert not lonely.exists()
    assert store.space.missing_bytes(plan_of(wanted)) == 0
    assert store.space.missing_bytes(plan_of(stray)) == 3
    assert store.space.missing_bytes(plan_of(source)) == 0


def test_a_removal_reports_only_the_bytes_that_it_frees(
    fetch_model: FetchModel, source: MemorySource, store: Store
) -> None:
    freed: list[int] = []
    one, _ = fetch_model(source, store, "one"), fetch_model(source, store, "two")
    store.snapshots.remove("one", one.revision, freed.append)
    assert sum(freed) == 0
    store.snapshots.remove("two", one.revision, freed.append)
    assert sum(freed) == sum(map(len, set(source.files.values())))


@pytest.mark.parametrize("years", [-30, 30])
def test_a_clock_change_between_two_starts_loses_no_files(
    years: int, fetch_model: FetchModel, fetch_blobs: FetchBlobs, source: MemorySource, store: Store, root: Path
) -> None:
    kept = fetch_model(source, store, "kept")
    late = MemorySource({"b": b"0" * 1000}, repo="test/late")
    late.faults.truncate_at["b"] = 600
    with pytest.raises(Unreachable):
        fetch_blobs(late, store)
    then_s = time.time() + years * 365 * 86400
    for path in (root / "partial", *(root / "partial").iterdir(), root / "models", kept.path.parent):
        os.utime(path, (then_s, then_s))  # as a clock that was wrong by years has left them
    assert store.unfinished.drop_idle([], rounds=1) == 0
    store.recover()
    assert store.snapshots.all() == [kept]
    assert store.space.missing_bytes(plan_of(late)) == 400
    assert store.space.missing_bytes(plan_of(source)) == 0


def test_space_freed_by_others_counts_from_the_next_check(
    fetch_model: FetchModel, source: MemorySource, store: Store
) -> None:
    snapshot = fetch_model(source, store, "llama")
    limit = store.space.used_bytes()
    with pytest.raises(InsufficientStorage, match=f"used {limit} bytes"):
        store.space.reserve("other", 1, limit, 0)
    for path in (*store.blobs.paths().values(), snapshot.path):
        remove_tree(path)
    store.snapshots.all()
    store.space.reserve("other", snapshot.size, limit, 0)


def test_space_freed_by_a_removal_counts_at_once(fetch_model: FetchModel, source: MemorySource, store: Store) -> None:
    snapshot = fetch_model(source, store, "llama")
    limit = store.space.used_bytes()
    with pytest.raises(InsufficientStorage):
        store.space.reserve("other", snapshot.size, limit, 0)
    store.snapshots.remove("llama", snapshot.revision)
    store.space.reserve("other", snapshot.size, limit, 0)


@pytest.mark.skipif(os.geteuid() != 0, reason="another owner's files take root to make")
def test_files_of_another_owner_in_a_snapshot_keep_nothing_else_on_the_disk(
    fetch_model: FetchModel, source: MemorySource, store: Store, root: Path
) -> None:
    """A process of root that mounted a model of Python files has left its bytecode in it."""
    snapshot = fetch_model(source, store, "llama")
    foreign = snapshot.path / "__pycache__"
    foreign.mkdir()
    (foreign / "model.pyc").write_bytes(b"x")
    os.chown(foreign, 65532, 65532)
    with without_power_over_files():
        with pytest.raises(StoreFailure, match="Permission denied"):
            store.snapshots.remove("llama", snapshot.revision)
        store.blobs.drop_orphans()
    assert blobs(root) == 0
    assert [path.name for path in (root / "models").rglob("*") if path.is_file()] == ["model.pyc"]
