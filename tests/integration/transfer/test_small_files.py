"""Files that fit in one response: faults, what is kept, and how many are fetched in parallel."""

import hashlib
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.store.store import Store
from agent.transfer.engine import FetchResult, fetch
from agent.transfer.progress import Progress
from agent.transfer.rate_limit import RateLimiter
from agent.transfer.receive import Stopped
from rig.processes import wait_until
from shared.byte_ranges import ByteRange
from shared.errors import AuthDenied, DigestMismatch, SourceChanged, Unreachable
from shared.sources.memory import MemorySource
from tests.builders.stores import plan_of

FetchBlobs = Callable[..., FetchResult]
BODY = os.urandom(100_000)


@pytest.fixture
def small() -> MemorySource:
    return MemorySource({"small": BODY})


def parts(root: Path) -> list[Path]:
    return sorted((root / "partial").glob("*.part"))


def test_a_truncated_file_resumes_where_it_stopped(fetch_blobs: FetchBlobs, small: MemorySource, store: Store) -> None:
    small.faults.truncate_at["small"] = 40_000

    def mend_once_it_broke_off(_: str, position: int) -> None:
        if broke_off.is_set():
            small.faults.truncate_at.clear()
        if position == 40_000:
            broke_off.set()

    broke_off = threading.Event()
    small.faults.before_read = mend_once_it_broke_off
    progress = Progress()
    result = fetch_blobs(small, store, progress=progress)
    assert result.blobs["small"] == hashlib.sha256(BODY).hexdigest()
    assert small.served_bytes == progress.done == progress.received == len(BODY)


def test_an_abandoned_download_keeps_its_received_bytes(
    fetch_blobs: FetchBlobs, small: MemorySource, store: Store, root: Path
) -> None:
    small.faults.truncate_at["small"] = 40_000
    with pytest.raises(Unreachable):
        fetch_blobs(small, store)
    assert [p.stat().st_size for p in parts(root)] == [40_000]
    assert store.space.missing_bytes(plan_of(small)) == len(BODY) - 40_000
    small.faults.truncate_at.clear()
    fetch_blobs(small, store)
    assert small.served_bytes == len(BODY)


def test_a_stopped_download_keeps_its_received_files(small: MemorySource, store: Store) -> None:
    stop = threading.Event()
    small.faults.max_bytes = 100

    def drip(_: str, position: int) -> None:
        if position:
            stop.set()
            time.sleep(0.01)  # ten seconds for all

    small.faults.before_read = drip
    with pytest.raises(Stopped):
        fetch(small, plan_of(small), store, progress=Progress(), stop=stop)
    wait_until(
        lambda: store.space.missing_bytes(plan_of(small)) < len(BODY),
        60,
        "the thread to leave what came",
    )
    assert store.space.missing_bytes(plan_of(small)) > 0


def test_a_sealed_file_is_not_lost_if_a_kill_interrupts_its_rehashing(
    small: MemorySource, store: Store, root: Path
) -> None:
    plan, stop = plan_of(small), threading.Event()
    [file] = plan.manifest.files
    with store.incoming.open(plan.keys[file.path], file, stop) as partial:
        assert partial
        partial.write(memoryview(BODY), 0)
        partial.held.add(ByteRange(0, len(BODY)))
        store.incoming.seal(partial)
    assert store.space.missing_bytes(plan) == 0
    with store.incoming.open(plan.keys[file.path], file, stop) as again:
        assert again
        assert store.space.missing_bytes(plan) == 0  # the state after a kill
        assert again.held.size_bytes == len(BODY)
    result = fetch(small, plan, store, progress=Progress(), stop=stop, prove_access=False)
    assert result.received_bytes == 0
    assert not list((root / "partial").glob("*.map"))


def test_wrong_bytes_are_fetched_once_more_and_then_refused(
    fetch_blobs: FetchBlobs, small: MemorySource, store: Store, root: Path
) -> None:
    small.faults.corrupt.add("small")
    progress = Progress()
    with pytest.raises(DigestMismatch):
        fetch_blobs(small, store, progress=progress)
    assert small.served_bytes == 2 * len(BODY)
    assert progress.done == 0
    assert parts(root) == []
    assert list((root / "blobs" / "sha256").iterdir()) == []


@pytest.mark.parametrize("kind", [SourceChanged, AuthDenied])
def test_permanent_failures_are_reported_at_once(
    fetch_blobs: FetchBlobs, small: MemorySource, store: Store, root: Path, kind: type[SourceChanged | AuthDenied]
) -> None:
    small.faults.on_open = [kind("no more")]
    with pytest.raises(kind):
        fetch_blobs(small, store)
    assert small.served_bytes == 0
    assert parts(root) == []


def test_files_without_digests_are_hashed_and_count_as_complete(fetch_blobs: FetchBlobs, store: Store) -> None:
    source = MemorySource({"a": BODY, "empty": b""}, digests=False)
    assert fetch_blobs(source, store).blobs == {
        "a": hashlib.sha256(BODY).hexdigest(),
        "empty": hashlib.sha256(b"").hexdigest(),
    }
    assert store.space.missing_bytes(plan_of(source)) == 0


def test_more_files_are_requested_in_parallel_from_a_distant_source(store: Store) -> None:
    """Fewer requests to a near source are measured by the bench: on a busy machine every source seems distant."""
    source = MemorySource({f"{n:03}": b"%d" % n for n in range(300)})
    reading, seen, lock = 0, list[int](), threading.Lock()

    def answer(_: str, __: int) -> None:
        nonlocal reading
        with lock:
            reading += 1
            seen.append(reading)
        time.sleep(0.02)  # simulates the distance
        with lock:
            reading -= 1

    source.faults.before_read = answer
    fetch(source, plan_of(source), store, progress=Progress(), stop=threading.Event())
    assert max(seen[:8]) <= 4
    assert 4 < max(seen) <= 16


def test_the_rate_limit_applies_to_small_files(small: MemorySource, store: Store) -> None:
    """A rate limit releases far less at a time than such a file."""
    sizes: list[int] = []
    small.faults.before_read = lambda _, position: sizes.append(position)
    bucket = RateLimiter(200_000)
    fetch(small, plan_of(small), store, progress=Progress(), stop=threading.Event(), rate_limiter=bucket)
    assert len([position for position in sizes if position < len(BODY)]) >= len(BODY) // bucket.chunk_bytes(len(BODY))
