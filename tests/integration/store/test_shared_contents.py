"""Two models that share files: what becomes of the one never takes bytes that the other counts on."""

from collections.abc import Callable
from pathlib import Path

from agent.store.snapshot import Snapshot
from agent.store.store import Store
from agent.transfer.engine import FetchResult
from shared.manifest import Manifest
from shared.sources.memory import MemorySource

Bring = Callable[..., FetchResult]
Stock = Callable[..., Snapshot]
ONE = MemorySource({"weights": b"0123456789" * 100_000, "one": b"1"})
TWO = MemorySource({**ONE.files, "two": b"2"})


def assert_kept(store: Store, result: FetchResult) -> None:
    """Assert that the second is here, can be committed, and leaves nothing behind when it goes."""
    assert store.missing_bytes(TWO.resolve()) == 0
    snapshot = store.commit(TWO.resolve(), "two", result.blobs)
    assert {f.path: (snapshot.path / f.path).read_bytes() for f in snapshot.files} == TWO.files
    assert list((store.root / "partial").iterdir()) == []
    store.set_aside_and_remove("two", snapshot.revision)
    assert store.blobs() == {}


def test_one_is_committed_and_removed_before_the_others_commit(stock: Stock, bring: Bring, store: Store) -> None:
    result = bring(TWO, store)
    store.set_aside_and_remove("one", stock(ONE, store, "one").revision)
    assert_kept(store, result)


def test_one_is_called_off(bring: Bring, store: Store) -> None:
    result = bring(TWO, store)
    bring(ONE, store)
    store.discard(ONE.resolve())
    assert_kept(store, result)


def test_what_is_not_wanted_any_more_is_not_kept_for_its_own_sake(stock: Stock, bring: Bring, store: Store) -> None:
    bring(TWO, store)
    store.drop_unreferenced([ONE.resolve()])
    stock(ONE, store, "one")
    assert list((store.root / "partial").iterdir()) == []


class Overtaken(Store):
    """A store in which another download brings what is missing right after this one has looked."""

    another: Callable[[], object] | None = None

    def pin(self, manifest: Manifest) -> dict[str, str]:
        found, another = super().pin(manifest), self.another
        self.another = None
        if another:
            another()
        return found


def test_files_that_another_brings_in_the_first_moment_are_taken(bring: Bring, root: Path) -> None:
    store = Overtaken.open(root)
    assert isinstance(store, Overtaken)
    store.another = lambda: bring(ONE, store)
    before = ONE.served_bytes
    result = bring(TWO, store)
    assert ONE.served_bytes - before == ONE.resolve().size_bytes
    store.discard(ONE.resolve())
    assert_kept(store, result)
    store.close()
