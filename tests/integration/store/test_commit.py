"""From a source to a snapshot, and the layout of the snapshot."""

import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from agent.store.disk import RealDisk
from agent.store.download_plan import DownloadPlan
from agent.store.snapshot import Snapshot
from agent.store.store import Store
from agent.transfer.file_download import SMALL_BYTES
from agent.transfer.progress import Progress
from shared.errors import AuthDenied, InsufficientStorage
from shared.sources.memory import MemorySource
from shared.sources.port import Credentials
from tests.builders.stores import plan_of
from tests.readers.directories import du_bytes

FetchModel = Callable[[MemorySource, Store, str], Snapshot]
SOON_S = 60.0


def contents(snapshot: Snapshot) -> dict[str, bytes]:
    return {f.path: (snapshot.path / f.path).read_bytes() for f in snapshot.files}


def test_a_snapshot_has_exactly_the_files_of_its_source(
    fetch_model: FetchModel, source: MemorySource, store: Store
) -> None:
    snapshot = fetch_model(source, store, "llama")
    assert contents(snapshot) == source.files
    assert snapshot.verified == "digest"
    assert snapshot.size == sum(map(len, source.files.values()))
    assert store.snapshots.all() == [snapshot]


def test_the_directory_layout_and_mark_match_the_documentation(
    fetch_model: FetchModel, source: MemorySource, store: Store, root: Path
) -> None:
    snapshot = fetch_model(source, store, "team_llama")
    assert snapshot.path == root / "models" / "team_llama" / snapshot.revision
    mark = msgspec.json.decode((snapshot.path / ".completed").read_bytes())
    assert (mark["id"], mark["revision"], mark["manifest"]) == (
        "team_llama",
        snapshot.revision,
        source.resolve().digest,
    )
    for file in snapshot.files:
        blob, link = root / "blobs" / "sha256" / file.sha256, snapshot.path / file.path
        assert blob.samefile(link)
        assert stat.S_IMODE(blob.stat().st_mode) == 0o444
    for directory, _, _ in os.walk(snapshot.path):
        assert stat.S_IMODE(Path(directory).stat().st_mode) == 0o555
    assert list((root / "partial").iterdir()) == []
    assert [p.name for p in snapshot.path.parent.iterdir()] == [snapshot.revision]


def test_equal_files_are_transferred_and_stored_once(
    fetch_model: FetchModel, source: MemorySource, store: Store, root: Path
) -> None:
    fetch_model(source, store, "llama")
    distinct = set(source.files.values())
    assert source.served_bytes == sum(map(len, distinct))
    assert len(list((root / "blobs" / "sha256").iterdir())) == len(distinct)
    assert store.space.used_bytes() < sum(map(len, distinct)) + 64 * 2**10


def test_used_bytes_match_those_of_du(fetch_model: FetchModel, source: MemorySource, store: Store, root: Path) -> None:
    fetch_model(source, store, "llama")
    fetch_model(source, store, "copy")
    assert store.space.used_bytes() == du_bytes(root)


def test_a_long_id_is_shortened_in_the_directory_name_and_complete_in_the_mark(
    fetch_model: FetchModel, source: MemorySource, store: Store
) -> None:
    snapshot = fetch_model(source, store, "n" * 253)
    assert len(snapshot.path.parent.name) == 45
    assert store.snapshots.all()[0].id == "n" * 253


def test_committing_again_changes_nothing(fetch_model: FetchModel, source: MemorySource, store: Store) -> None:
    first = fetch_model(source, store, "llama")
    inode = first.path.stat().st_ino
    assert fetch_model(source, store, "llama") == first
    assert first.path.stat().st_ino == inode


def test_another_model_of_the_same_source_is_linked_without_transfer(
    fetch_model: FetchModel, source: MemorySource, store: Store
) -> None:
    one = fetch_model(source, store, "one")
    served = source.served_bytes
    assert store.space.missing_bytes(plan_of(source)) == 0
    two = fetch_model(source, store, "two")
    assert source.served_bytes - served <= 1  # one byte proves the access
    assert all((one.path / f.path).samefile(two.path / f.path) for f in one.files)


def test_linking_stored_files_requires_access_to_the_source(
    fetch_model: FetchModel, fetch_blobs: Callable[..., object], store: Store
) -> None:
    allowed = MemorySource({"a": b"abc"}, token="right", credentials=Credentials({"HF_TOKEN": "right"}))
    fetch_model(allowed, store, "one")
    refused = MemorySource({"a": b"abc"}, token="right")
    with pytest.raises(AuthDenied):
        fetch_blobs(refused, store, manifest=allowed.resolve())


def test_equal_bytes_of_another_source_are_fetched_and_then_linked(
    fetch_model: FetchModel, source: MemorySource, store: Store
) -> None:
    one = fetch_model(source, store, "one")
    other = MemorySource(source.files, repo="other/place")
    assert store.space.missing_bytes(plan_of(other)) > 0
    two = fetch_model(other, store, "two")
    assert other.served_bytes == sum(map(len, set(source.files.values())))
    assert all((one.path / f.path).samefile(two.path / f.path) for f in one.files)


def test_the_next_revision_transfers_only_changed_files(
    fetch_model: FetchModel, source: MemorySource, store: Store
) -> None:
    first = fetch_model(source, store, "llama")
    before = source.served_bytes
    source.files["config.json"] = b'{"model_type": "llama", "v": 2}'
    second = fetch_model(source, store, "llama")
    assert second.revision != first.revision
    assert source.served_bytes - before == len(source.files["config.json"]) + 1  # one byte proves the access
    assert [s.revision for s in store.snapshots.all()] in (
        [first.revision, second.revision],
        [second.revision, first.revision],
    )


def test_files_without_digests_are_recorded_as_verified_by_size(fetch_model: FetchModel, store: Store) -> None:
    snapshot = fetch_model(MemorySource({"a": b"abc"}, digests=False), store, "llama")
    assert snapshot.verified == "size"


def test_a_reservation_shrinks_to_zero_as_its_bytes_arrive(
    fetch_blobs: Callable[..., object], source: MemorySource, store: Store
) -> None:
    need = store.space.missing_bytes(plan_of(source))
    limit = store.space.used_bytes() + need
    store.space.reserve("llama@1", need, limit, 0)
    assert store.space.reserved_bytes() == need
    with pytest.raises(InsufficientStorage, match=f"need 1 bytes, have 0 bytes.*limit {limit} bytes"):
        store.space.reserve("other", 1, limit, 0)
    fetch_blobs(source, store, reservation="llama@1")
    assert store.space.reserved_bytes() == 0
    with pytest.raises(InsufficientStorage, match=f"used {store.space.used_bytes()} bytes"):
        store.space.reserve("other", 1, limit, 0)
    store.space.reserve("other", 1, store.space.used_bytes() + 1, 0)


SHAPES = {
    "one byte": {"a": b"a"},
    "whole blocks": {"a": os.urandom(2**20)},
    "many names": {f"{number:03}-{'n' * 100}/{'f' * 100}": os.urandom(number + 1) for number in range(150)},
    "one directory": {f"part-{number:04}-{'x' * 80}.bin": number.to_bytes(4, "big") for number in range(400)},
    "deep": {"/".join("d" * 20) + "/file": b"x" * 5000},
    "empty": {"empty": b"", "also/empty": b""},
}


@pytest.mark.parametrize("files", SHAPES.values(), ids=SHAPES)
def test_a_model_that_fits_exactly_stays_within_the_limit_by_du(
    files: dict[str, bytes], fetch_model: FetchModel, store: Store, root: Path
) -> None:
    fetch_model(MemorySource({"first": b"1"}, repo="org/first"), store, "first")
    source = MemorySource(files)
    manifest = source.resolve()
    plan = DownloadPlan(manifest)
    need = store.space.missing_bytes(plan) + store.space.overhead_bytes(plan, "llama")
    limit = store.space.used_bytes() + need
    with pytest.raises(InsufficientStorage):
        store.space.reserve("llama", need, limit - 1, 0)
    store.space.reserve("llama", need, limit, 0)
    fetch_model(source, store, "llama")
    assert du_bytes(root) <= limit
    assert store.space.overhead_bytes(DownloadPlan(manifest), "llama") == 0


def test_progress_ends_at_the_total(fetch_blobs: Callable[..., object], source: MemorySource, store: Store) -> None:
    progress = Progress()
    fetch_blobs(source, store, progress=progress)
    assert progress.done == progress.total == source.resolve().size_bytes


def test_two_downloads_of_the_same_content_transfer_it_once(fetch_blobs: Callable[..., object], store: Store) -> None:
    source = MemorySource({"a": os.urandom(2**20)})
    release, waiting = threading.Event(), threading.Event()

    def hold(path: str, position: int) -> None:
        del path
        if position == 0:
            waiting.set()
            release.wait(SOON_S)

    source.faults.before_read = hold
    threads = [threading.Thread(target=fetch_blobs, args=(source, store)) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert waiting.wait(SOON_S)
    release.set()
    for thread in threads:
        thread.join()
    assert source.served_bytes == 2**20 + 1  # the one that waited requests one byte to prove its access
    assert store.space.missing_bytes(plan_of(source)) == 0


class ListeningDisk(RealDisk):
    """Records the syncs before and after a snapshot is put in place."""

    def __init__(self) -> None:
        self.before: set[int] = set()
        self.after: set[int] = set()
        self.place: Path | None = None

    def fsync(self, descriptor: int) -> None:
        stands = self.place is not None and self.place.exists()
        (self.after if stands else self.before).add(os.fstat(descriptor).st_ino)
        super().fsync(descriptor)


def test_files_are_synced_before_the_rename_and_the_parent_directory_after_it(
    fetch_model: FetchModel, source: MemorySource, root: Path
) -> None:
    disk = ListeningDisk()
    store = Store.open(root, disk=disk)
    disk.place = root / "models" / "llama" / source.resolve().revision
    snapshot = fetch_model(source, store, "llama")
    store.close()
    large = [f.path for f in snapshot.files if f.size > SMALL_BYTES]
    directories = [Path(top) for top, _, _ in os.walk(snapshot.path)]
    wanted = [
        snapshot.path / ".completed",
        root / "blobs" / "sha256",
        *(snapshot.path / p for p in large),
        *directories,
    ]
    assert large
    assert {path.stat().st_ino for path in wanted} <= disk.before
    assert snapshot.path.parent.stat().st_ino in disk.after
