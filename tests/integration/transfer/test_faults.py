"""Faults of servers during a download, and which bytes are kept."""

import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent.store.store import Store
from agent.transfer.engine import FetchResult, fetch
from agent.transfer.progress import Progress
from agent.transfer.rate_limit import RateLimiter
from agent.transfer.receive import Stopped
from rig.processes import wait_until
from shared.errors import (
    AuthDenied,
    DigestMismatch,
    LarderError,
    RateLimited,
    SourceChanged,
    SourceNotFound,
    StoreFailure,
    Unreachable,
)
from shared.manifest import File, Manifest
from shared.sources.memory import MemorySource
from shared.sources.port import Body
from shared.sources.retry import RetryPolicy
from tests.builders.stores import plan_of
from tests.integration.transfer.threads import fetching_threads

FetchBlobs = Callable[..., FetchResult]
BODY = os.urandom(2**20)
SOON_S = 60.0


@pytest.fixture
def large() -> MemorySource:
    return MemorySource({"large": BODY})


def parts(root: Path) -> list[Path]:
    return sorted((root / "partial").glob("*.part"))


def test_a_truncated_body_resumes_where_it_stopped(fetch_blobs: FetchBlobs, large: MemorySource, store: Store) -> None:
    breaks = iter([100_000, 100_000, 700_000])

    def move_the_break(path: str, position: int) -> None:
        if position >= large.faults.truncate_at.get(path, 0):
            large.faults.truncate_at[path] = next(breaks, len(BODY))

    large.faults.before_read = move_the_break
    large.faults.max_bytes = 65_536
    fetch_blobs(large, store)
    assert large.served_bytes == len(BODY)


def test_a_body_that_always_ends_early_is_abandoned_and_its_bytes_are_kept(
    fetch_blobs: FetchBlobs, large: MemorySource, store: Store, root: Path
) -> None:
    large.faults.truncate_at["large"] = 300_000
    progress = Progress()
    with pytest.raises(Unreachable):
        fetch_blobs(large, store, progress=progress)
    assert isinstance(progress.failure, Unreachable)
    assert [p.stat().st_size for p in parts(root)] == [300_000]
    assert store.space.missing_bytes(plan_of(large)) == len(BODY) - 300_000
    large.faults.truncate_at.clear()
    fetch_blobs(large, store)
    assert large.served_bytes == len(BODY)


def test_a_file_with_a_wrong_digest_is_fetched_once_more_and_then_refused(
    fetch_blobs: FetchBlobs, large: MemorySource, store: Store, root: Path
) -> None:
    large.faults.corrupt.add("large")
    with pytest.raises(DigestMismatch) as caught:
        fetch_blobs(large, store)
    assert "'large'" in str(caught.value)
    assert hashlib.sha256(BODY).hexdigest() in str(caught.value)
    assert large.served_bytes == 2 * len(BODY)
    assert parts(root) == []
    assert list((root / "blobs" / "sha256").iterdir()) == []


def test_a_prefix_that_was_damaged_on_disk_is_replaced(
    fetch_blobs: FetchBlobs, large: MemorySource, store: Store, root: Path
) -> None:
    large.faults.truncate_at["large"] = 300_000
    with pytest.raises(Unreachable):
        fetch_blobs(large, store)
    with parts(root)[0].open("r+b") as part:
        part.write(b"damaged")
    large.faults.truncate_at.clear()
    result = fetch_blobs(large, store)
    assert result.blobs["large"] == hashlib.sha256(BODY).hexdigest()


def test_a_file_longer_than_the_manifest_says_is_refused(fetch_blobs: FetchBlobs, store: Store) -> None:
    class Longer(MemorySource):
        def open(self, file: File, offset: int = 0, length: int | None = None) -> Body:
            return super().open(File(file.path, file.size + 1), offset, length)

    short = Manifest("hf://test/model@r", "r", (File("large", len(BODY) - 1),))
    with pytest.raises(DigestMismatch, match="longer than the 1048575 bytes"):
        fetch_blobs(Longer({"large": BODY}), store, manifest=short)


def test_received_bytes_are_discarded_if_the_source_changed(
    fetch_blobs: FetchBlobs, large: MemorySource, store: Store, root: Path
) -> None:
    large.faults.truncate_at["large"] = 300_000
    with pytest.raises(Unreachable):
        fetch_blobs(large, store)
    large.faults.changed = True
    with pytest.raises(SourceChanged):
        fetch_blobs(large, store)
    assert parts(root) == []


@pytest.mark.parametrize("error", [AuthDenied("no"), SourceNotFound("no")])
def test_a_permanent_error_ends_the_download_at_once(
    fetch_blobs: FetchBlobs, large: MemorySource, store: Store, error: LarderError
) -> None:
    large.faults.on_open = [error, error]
    with pytest.raises(type(error)):
        fetch_blobs(large, store)
    assert len(large.faults.on_open) == 1


def test_a_wait_requested_by_the_server_is_respected(
    fetch_blobs: FetchBlobs, large: MemorySource, store: Store
) -> None:
    large.faults.on_open = [RateLimited("later", 0.2)]
    started = time.monotonic()
    fetch_blobs(large, store)
    assert time.monotonic() - started >= 0.2


def test_the_first_failure_stops_the_other_files_and_keeps_their_bytes(fetch_blobs: FetchBlobs, store: Store) -> None:
    bodies = {f"f{n}": os.urandom(5 * 2**20) for n in range(3)}
    source = MemorySource(bodies)
    halfway = threading.Event()

    def fail_late(path: str, position: int) -> None:
        if path == "f0" and position > 2**20:
            halfway.wait(SOON_S)
            raise AuthDenied("the token was revoked")
        if path == "f1" and position > 2**20:
            halfway.set()

    source.faults.before_read = fail_late
    with pytest.raises(AuthDenied):
        fetch_blobs(source, store)
    wait_until(lambda: fetching_threads() == 0, SOON_S, "the last receiver to leave")
    left = store.space.missing_bytes(plan_of(source))
    assert left < source.resolve().size_bytes - 2**20
    source.faults.before_read = None
    before = source.served_bytes
    fetch_blobs(source, store)
    assert source.served_bytes - before <= left + 2  # and one byte each of f1 and f2, to prove access


@pytest.fixture
def released() -> threading.Event:
    """The event that ends the hanging read."""
    return threading.Event()


@pytest.fixture
def hanging(large: MemorySource, released: threading.Event) -> Iterator[tuple[MemorySource, threading.Event]]:
    """A source whose body hangs after its first bytes, and the event that is set when it hangs."""
    hangs = threading.Event()

    def hang(path: str, position: int) -> None:
        del path
        if position >= 65_536:
            hangs.set()
            released.wait(SOON_S)
            released.set()

    large.faults.before_read, large.faults.max_bytes = hang, 65_536
    yield large, hangs
    released.set()
    wait_until(lambda: fetching_threads() == 0, SOON_S, "the read that hung to end")


def set_once(happened: threading.Event) -> threading.Event:
    """Return an event that is set as soon as another one is."""
    stop = threading.Event()

    def follow() -> None:
        happened.wait(SOON_S)
        stop.set()

    threading.Thread(target=follow, daemon=True).start()
    return stop


def test_a_stop_ends_a_download_in_a_hanging_read(
    hanging: tuple[MemorySource, threading.Event], released: threading.Event, fetch_blobs: FetchBlobs, store: Store
) -> None:
    source, hangs = hanging
    with pytest.raises(Stopped):
        fetch_blobs(source, store, stop=set_once(hangs))
    assert not released.is_set(), "the read is still hanging"
    assert store.space.missing_bytes(plan_of(source)) == len(BODY) - 65_536


def test_a_hanging_attempt_writes_nothing_and_the_next_waits_for_its_file(
    hanging: tuple[MemorySource, threading.Event], fetch_blobs: FetchBlobs, store: Store
) -> None:
    source, hangs = hanging
    with pytest.raises(Stopped):
        fetch_blobs(source, store, stop=set_once(hangs))
    second = threading.Event()
    threading.Timer(0.3, second.set).start()
    with pytest.raises(Stopped):  # the file is still held by the read that hangs
        fetch_blobs(source, store, stop=second)


def test_a_stop_ends_a_wait_for_bandwidth(large: MemorySource, store: Store) -> None:
    stop, asked = threading.Event(), threading.Event()

    def clock() -> float:
        """Return a constant time, so that a wait for bandwidth never ends by itself; each wait begins with a call."""
        if large.served_bytes:
            asked.set()
        return 0.0

    def stop_when_it_waits() -> None:
        asked.wait(SOON_S)
        stop.set()

    bucket = RateLimiter(1000, clock)
    bucket.give_back(1000)
    threading.Thread(target=stop_when_it_waits, daemon=True).start()
    with pytest.raises(Stopped):
        fetch(large, plan_of(large), store, progress=Progress(), stop=stop, rate_limiter=bucket)
    wait_until(lambda: fetching_threads() == 0, SOON_S, "the waiting thread to end as well")
    assert 0 < large.served_bytes < len(BODY)


def test_the_rate_limit_applies_to_all_files_together(store: Store) -> None:
    source = MemorySource({f"f{n}": os.urandom(150_000) for n in range(8)})
    started = time.monotonic()
    fetch(
        source,
        plan_of(source),
        store,
        progress=Progress(),
        stop=threading.Event(),
        rate_limiter=RateLimiter(1_000_000),
    )
    assert time.monotonic() - started >= 1.1


def test_a_file_whose_sync_failed_never_becomes_a_blob(root: Path) -> None:
    class Failing:
        def __init__(self) -> None:
            self.fails = False

        def fsync(self, descriptor: int) -> None:
            if self.fails:
                raise OSError(5, "Input/output error")
            os.fsync(descriptor)

        def sync_all(self, descriptor: int) -> None:
            self.fsync(descriptor)

        def free_bytes(self, path: Path) -> int:
            del path
            return 10**12

        def fits_page_cache(self, size_bytes: int) -> bool:
            return size_bytes > 0

    disk, source = Failing(), MemorySource({"a": b"abc"})
    store = Store.open(root, disk=disk)
    disk.fails = True
    policy = RetryPolicy(attempts=1)
    with pytest.raises(StoreFailure, match="kernel log"):
        fetch(source, plan_of(source), store, progress=Progress(), stop=threading.Event(), policy=policy)
    assert parts(root) == []
    assert list((root / "blobs" / "sha256").iterdir()) == []
    disk.fails = False
    result = fetch(source, plan_of(source), store, progress=Progress(), stop=threading.Event())
    disk.fails = True
    with pytest.raises(StoreFailure):
        store.snapshots.commit(plan_of(source), "llama", result.blobs)
    assert store.snapshots.all() == []
    disk.fails = False
    assert store.snapshots.commit(plan_of(source), "llama", result.blobs).files
    store.close()
