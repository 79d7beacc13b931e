"""Bytes that change at rest while size and time stamp stay the same: only reading finds them."""

import fcntl
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from agent.linux.direct_read import absent_pages, opened_direct, read_direct
from agent.store.blobs import Blobs
from agent.store.scrub import Scrubber, ScrubFigures
from agent.store.snapshot import Snapshot
from agent.store.state import StoreState
from agent.store.store import Store
from agent.transfer.engine import FetchResult
from shared.daemon_thread import start_daemon_thread
from shared.sources.memory import MemorySource
from tests.builders.stores import plan_of
from tests.integration.store.rot import flip_a_bit

FetchBlobs = Callable[..., FetchResult]
FetchModel = Callable[[MemorySource, Store, str], Snapshot]
LARGE = "model-00001-of-00002.safetensors"
FAST = 2**40
SOON_S = 60


def scrubber(store: Store, stop: threading.Event | None = None) -> Scrubber:
    return Scrubber(store, FAST, 0, ScrubFigures(), lambda: None, stop or threading.Event())


def test_a_flipped_bit_is_found_and_only_its_file_is_fetched_again(
    fetch_model: FetchModel, fetch_blobs: FetchBlobs, source: MemorySource, store: Store
) -> None:
    snapshot, twin = fetch_model(source, store, "llama"), fetch_model(source, store, "twin")
    flip_a_bit(snapshot.path / LARGE)
    assert store.snapshots.check(snapshot) == []  # stat does not show the change
    scrub = scrubber(store)
    assert scrub.read_pass()
    assert scrub.figures.damaged == 1
    assert scrub.figures.size_bytes == sum(map(len, set(source.files.values())))
    assert scrub.figures.ended_at > 0
    assert store.snapshots.check(snapshot) == store.snapshots.check(twin) == [LARGE]
    before = source.served_bytes
    for damaged in (snapshot, twin):
        store.snapshots.repair(damaged, plan_of(source), fetch_blobs(source, store, prove_access=False).blobs)
    assert source.served_bytes - before == len(source.files[LARGE])
    assert (twin.path / LARGE).read_bytes() == source.files[LARGE]
    assert scrub.read_pass()
    assert scrub.figures.damaged == 1


@pytest.mark.parametrize("damaged", [b"{", b'{"after": "\xff"}'])
def test_a_damaged_position_starts_a_new_pass(store: Store, damaged: bytes) -> None:
    store.layout.scrub.write_bytes(damaged)
    stop = threading.Event()
    stop.set()
    start_daemon_thread(scrubber(store, stop).run, "scrub").result(SOON_S)


def test_files_whose_blobs_were_removed_are_scrubbed_too(
    fetch_model: FetchModel, source: MemorySource, store: Store, root: Path
) -> None:
    snapshot = fetch_model(source, store, "llama")
    flip_a_bit(snapshot.path / LARGE)
    for blob in (root / "blobs" / "sha256").iterdir():
        blob.unlink()
    assert scrubber(store).read_pass()
    assert store.snapshots.check(snapshot) == [LARGE]


def test_a_position_that_cannot_be_written_is_no_damage_and_does_not_end_the_pass(
    fetch_model: FetchModel, source: MemorySource, store: Store, root: Path
) -> None:
    snapshot = fetch_model(source, store, "llama")
    (root / "scrub.new").symlink_to("/proc/self/mem")  # writing to its start fails like a broken disk
    scrub = scrubber(store)
    assert scrub.read_pass()
    assert scrub.figures.size_bytes == sum({f.sha256: f.size for f in snapshot.files}.values())
    assert scrub.figures.damaged == 0
    assert store.snapshots.check(snapshot) == []


def test_damage_is_remembered_after_a_restart(fetch_model: FetchModel, source: MemorySource, root: Path) -> None:
    store = Store.open(root)
    flip_a_bit(fetch_model(source, store, "llama").path / LARGE)
    scrubber(store).read_pass()
    store.close()
    again = Store.open(root)
    again.recover()
    assert again.snapshots.all()[0].damaged == (LARGE,)
    assert again.space.missing_bytes(plan_of(source)) == len(source.files[LARGE])
    again.close()


def test_an_interrupted_pass_resumes_where_it_stopped(
    fetch_model: FetchModel, source: MemorySource, store: Store
) -> None:
    fetch_model(source, store, "llama")
    total = sum(map(len, set(source.files.values())))
    stop = threading.Event()
    first = scrubber(store, stop)

    def clock() -> float:
        if first.figures.size_bytes > total - 2 * 2**20:  # in the middle of the second large file, whichever that is
            stop.set()
        return 0.0

    first.clock = clock
    assert not first.read_pass()
    second = Scrubber(store, FAST, 0, ScrubFigures(), lambda: None, threading.Event())
    second.on_damage = second.stop.set
    ended = threading.Event()
    second.wall_clock = lambda: (ended.set(), second.stop.set(), 7.0)[2]  # type: ignore[func-returns-value]
    thread = threading.Thread(target=second.run)  # the scrub sets the lowest priorities, which other tests must not get
    thread.start()
    thread.join()
    assert ended.is_set()
    assert total <= first.figures.size_bytes + second.figures.size_bytes <= total + 6 * 2**20
    assert second.figures.size_bytes < total


def test_a_blob_removed_while_it_is_read_is_not_reported_as_damaged(
    fetch_model: FetchModel, source: MemorySource, store: Store
) -> None:
    snapshot = fetch_model(source, store, "llama")
    scrub = scrubber(store)
    store.blobs = _Stale(store._state, store.blobs.paths())
    store.snapshots.remove("llama", snapshot.revision)
    assert scrub.read_pass()
    assert scrub.figures.damaged == 0


class _Stale(Blobs):
    """Blobs whose paths were read before a removal."""

    def __init__(self, state: StoreState, paths: Mapping[str, Path]) -> None:
        super().__init__(state)
        self._paths = paths

    def paths(self) -> Mapping[str, Path]:
        return self._paths


@pytest.mark.parametrize("direct", [True, False])
def test_reads_leave_the_page_cache_unchanged(*, direct: bool, tmp_path: Path) -> None:
    body = os.urandom(3 * 2**20 + 5)
    path = tmp_path / "file"
    path.write_bytes(body)
    with opened_direct(path) as descriptor:
        if not direct:
            fcntl.fcntl(descriptor, fcntl.F_SETFL, os.O_RDONLY)
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
            os.pread(file.fileno(), 10_000, 2**20 + 5000)
        before = absent_pages(descriptor, 0, len(body))
        if not before:
            pytest.skip("this file system keeps what it is asked to drop")
        assert len(before) == 2  # the pages before and after those that were read
        assert b"".join(map(bytes, read_direct(descriptor))) == body
        assert absent_pages(descriptor, 0, len(body)) == before


def test_a_file_system_without_direct_io_is_scrubbed_too(small_disk: Path, fetch_model: FetchModel) -> None:
    store = Store.open(small_disk / "root")
    small = MemorySource({"a": os.urandom(2**20), "b": b"x"})
    flip_a_bit(fetch_model(small, store, "llama").path / "a")
    scrub = scrubber(store)
    assert scrub.read_pass()
    assert scrub.figures.damaged == 1
    store.close()
