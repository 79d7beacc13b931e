"""Which changes of a store the kernel reports, and which it does not."""

import os
import select
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent.linux.inotify import InotifyWatch
from agent.store.snapshot import Snapshot
from agent.store.store import Store
from shared.sources.memory import MemorySource

LARGE = "model-00001-of-00002.safetensors"


@pytest.fixture
def snapshot(
    fetch_model: Callable[[MemorySource, Store, str], Snapshot], source: MemorySource, store: Store
) -> Snapshot:
    return fetch_model(source, store, "llama")


@pytest.fixture
def watch(snapshot: Snapshot, store: Store) -> Iterator[InotifyWatch]:
    del snapshot
    opened = InotifyWatch.open()
    assert opened
    assert opened.cover([store.layout.blobs], creations=False)
    assert opened.cover(store.snapshots.directories(), creations=True)
    assert not opened.drain()
    yield opened
    opened.close()


def remove(snapshot: Snapshot, blob: Path) -> None:
    del blob
    snapshot.path.chmod(0o755)
    (snapshot.path / LARGE).unlink()


def truncate_the_link(snapshot: Snapshot, blob: Path) -> None:
    del blob
    os.truncate(snapshot.path / LARGE, 1)


def write_to_the_blob(snapshot: Snapshot, blob: Path) -> None:
    del snapshot
    with blob.open("r+b") as file:
        file.write(b"damaged")


def remove_the_blob(snapshot: Snapshot, blob: Path) -> None:
    del snapshot
    blob.unlink()


def replace_below(snapshot: Snapshot, blob: Path) -> None:
    del blob
    (snapshot.path / "fresh").write_text("x")
    (snapshot.path / "fresh").rename(snapshot.path / "original" / "params.json")


def move_the_model_away(snapshot: Snapshot, blob: Path) -> None:
    del blob
    snapshot.path.parent.rename(snapshot.path.parent.with_name("elsewhere"))


def plant_a_link(snapshot: Snapshot, blob: Path) -> None:
    del blob
    (snapshot.path.parent.parent / "planted").symlink_to("/etc")


@pytest.mark.parametrize(
    "change",
    [
        remove, truncate_the_link, write_to_the_blob, remove_the_blob, replace_below, move_the_model_away, plant_a_link,
    ],
)  # fmt: skip
def test_every_kind_of_change_to_a_snapshot_is_reported(
    change: Callable[[Snapshot, Path], None], watch: InotifyWatch, snapshot: Snapshot, store: Store
) -> None:
    change(snapshot, store.blobs.path(next(f.sha256 for f in snapshot.files if f.path == LARGE)))
    assert select.select([watch.descriptor], [], [], 60)[0]
    assert watch.drain()


def test_reads_and_blobs_of_a_new_download_are_not_reported_as_changes(
    watch: InotifyWatch, snapshot: Snapshot, store: Store, fetch_blobs: Callable[..., object]
) -> None:
    for file in snapshot.files:
        (snapshot.path / file.path).read_bytes()
    fetch_blobs(MemorySource({"a": b"abc"}, repo="test/other"), store)
    assert not watch.drain()


def test_missing_directories_and_links_are_not_watched(watch: InotifyWatch, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    assert watch.cover([tmp_path / "missing", tmp_path / "link"], creations=True)
    (tmp_path / "new").write_text("")
    assert not watch.drain()
