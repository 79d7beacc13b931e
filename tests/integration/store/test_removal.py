"""What a removal takes away and what it leaves."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.store.snapshot import Snapshot
from agent.store.store import Store
from agent.transfer.engine import FetchResult
from shared.errors import Unreachable
from shared.sources.memory import MemorySource

Bring = Callable[..., FetchResult]
Stock = Callable[[MemorySource, Store, str], Snapshot]


def blobs(root: Path) -> int:
    return len(list((root / "blobs" / "sha256").iterdir()))


def test_the_files_go_with_the_last_model_that_links_them(
    stock: Stock, source: MemorySource, store: Store, root: Path
) -> None:
    one, two = stock(source, store, "one"), stock(source, store, "two")
    store.set_aside_and_remove("one", one.revision)
    assert store.snapshots() == [two]
    assert store.check(two) == []
    store.set_aside_and_remove("two", two.revision)
    assert store.snapshots() == []
    assert blobs(root) == 0
    assert list((root / "models").iterdir()) == []


def test_removing_what_is_not_there_is_done(store: Store) -> None:
    store.set_aside_and_remove("llama", "0" * 40)
    assert store.snapshots() == []


def test_bytes_that_left_with_a_model_are_not_known_any_more(stock: Stock, source: MemorySource, store: Store) -> None:
    other = MemorySource(source.files, repo="other/place")
    one = stock(source, store, "one")
    stock(other, store, "two")
    store.set_aside_and_remove("one", one.revision)
    assert store.missing_bytes(source.resolve()) > 0  # they are here, but for the other source alone
    assert store.missing_bytes(other.resolve()) == 0


def test_an_unfinished_download_keeps_its_verified_files_when_another_model_goes(
    stock: Stock, bring: Bring, source: MemorySource, store: Store
) -> None:
    one = stock(source, store, "one")
    result = bring(source, store)
    store.set_aside_and_remove("one", one.revision)
    assert store.missing(source.resolve()) == []
    assert store.check(store.commit(source.resolve(), "two", result.sha256)) == []


def test_a_sweep_removes_what_a_kill_left_and_keeps_unfinished_files(
    stock: Stock, bring: Bring, source: MemorySource, store: Store, root: Path
) -> None:
    kept = stock(source, store, "kept")
    gone = stock(MemorySource({"a": b"abc"}, repo="test/gone"), store, "gone")
    gone.path.rename(gone.path.with_name(f".gone-{gone.revision}-0"))
    tmp = root / "models" / "half" / ".tmp-x"
    tmp.mkdir(parents=True)
    (tmp / "file").write_text("x")
    late = MemorySource({"b": b"0" * 1000}, repo="test/late")
    late.faults.truncate_at["b"] = 600
    with pytest.raises(Unreachable):
        bring(late, store)
    store.sweep()
    assert store.snapshots() == [kept]
    assert store.check(kept) == []
    assert blobs(root) == len({f.sha256 for f in kept.files})
    assert not tmp.exists()
    assert store.missing_bytes(late.resolve()) == 400


def test_a_sweep_keeps_the_blob_of_a_file_that_was_removed_from_a_snapshot(
    stock: Stock, source: MemorySource, store: Store
) -> None:
    snapshot = stock(source, store, "llama")
    snapshot.path.chmod(0o755)
    (snapshot.path / "model-00001-of-00002.safetensors").unlink()
    store.sweep()
    assert store.missing(source.resolve()) == []


def test_a_model_that_is_no_longer_wanted_leaves_nothing(
    bring: Bring, source: MemorySource, store: Store, root: Path
) -> None:
    source.faults.truncate_at["model-00001-of-00002.safetensors"] = 2**20
    with pytest.raises(Unreachable):
        bring(source, store)
    store.discard(source.resolve())
    assert list((root / "partial").iterdir()) == []
    assert blobs(root) == 0


def test_uncommitted_files_are_dropped_by_age_unless_they_are_named(
    bring: Bring, source: MemorySource, store: Store, root: Path
) -> None:
    other = MemorySource({"a": b"abc"}, repo="other/place")
    bring(source, store)
    bring(other, store)
    count = len(list((root / "partial").iterdir()))
    assert store.drop_partials([], before=time.time() - 60) == 0
    assert len(list((root / "partial").iterdir())) == count
    assert store.drop_partials([other.resolve()], before=time.time() + 60) == count - 1
    assert store.missing(other.resolve()) == []
    assert blobs(root) == 1
