"""Models too large for the page cache are written directly, with the same result."""

import errno
import hashlib
import mmap
import os
import random
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.linux.direct_read import absent_pages
from agent.linux.direct_write import PAGE_BYTES, DirectWriter
from agent.store.disk import RealDisk
from agent.store.partials import open_partial
from agent.store.store import Store
from agent.store.verify import FileHasher
from agent.transfer.engine import FetchResult
from agent.transfer.progress import Progress
from agent.transfer.rate_limit import RateLimiter
from agent.transfer.receive import DownloadContext, receive
from agent.transfer.segmented_file import SegmentedFile
from shared.errors import InsufficientStorage, Unreachable
from shared.sources.memory import MemorySource
from tests.builders.stores import plan_of

FetchBlobs = Callable[..., FetchResult]
BIG = os.urandom(5 * 2**20 + 12_345)
HELD = 2**20 + 777  # not a multiple of the page size
ROOM = memoryview(mmap.mmap(-1, 2**20))


class TightDisk(RealDisk):
    """A disk on a machine with little memory."""

    def fits_page_cache(self, size_bytes: int) -> bool:
        del size_bytes
        return False


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """A directory on a disk that supports direct writes."""
    if not os.major(tmp_path.stat().st_dev):
        pytest.skip("the file system of temporary files has no block device of its own, so nothing goes past the cache")
    return tmp_path


@pytest.fixture
def tight(disk: Path) -> Iterator[Store]:
    """A store whose models are too large for the page cache."""
    with closing(Store.open(disk / "tight", disk=TightDisk())) as store:
        yield store


def cached_bytes(path: Path) -> int:
    """Return how many bytes of a file the page cache has, in whole pages."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        absent = sum(end - start for start, end in absent_pages(descriptor, 0, path.stat().st_size))
        return -(-path.stat().st_size // PAGE_BYTES) * PAGE_BYTES - absent
    finally:
        os.close(descriptor)


def test_files_too_large_for_the_page_cache_bypass_it(fetch_blobs: FetchBlobs, tight: Store) -> None:
    source = MemorySource({"big": BIG, "small": b"x" * 5000})
    result = fetch_blobs(source, tight)
    assert cached_bytes(tight.blobs.path(result.blobs["big"])) <= PAGE_BYTES  # the end, which does not fill a page
    assert result.blobs["big"] == hashlib.sha256(BIG).hexdigest()
    assert tight.blobs.path(result.blobs["big"]).read_bytes() == BIG
    assert tight.blobs.path(result.blobs["small"]).read_bytes() == b"x" * 5000


def test_a_file_that_fits_in_the_page_cache_stays_there(fetch_blobs: FetchBlobs, store: Store) -> None:
    blob = store.blobs.path(fetch_blobs(MemorySource({"big": BIG}), store).blobs["big"])
    assert cached_bytes(blob) >= len(BIG)


def test_only_archives_use_the_page_cache_when_memory_is_tight(tight: Store) -> None:
    assert tight.incoming.uses_page_cache(plan_of(MemorySource({"model.tar": BIG})))
    assert not tight.incoming.uses_page_cache(plan_of(MemorySource({"model.bin": BIG})))


def test_a_write_that_begins_within_a_page_bypasses_the_cache_from_the_next_page(tight: Store) -> None:
    source, stop = MemorySource({"big": BIG}), threading.Event()
    plan = plan_of(source)
    [file] = plan.manifest.files
    path = DownloadContext(source, RateLimiter(), Progress(), lambda _: None, stop, time.monotonic)
    with tight.incoming.open(plan.keys[file.path], file, stop, cached=False) as partial:
        assert partial is not None
        segmented = SegmentedFile(file, partial, FileHasher)
        for most in (HELD, None):
            segment = segmented.take_segment(most)
            assert segment is not None
            receive(path, segmented, segment, ROOM)
            segmented.give_back(segment)
        segmented.hashing.hasher.verify()
        os.fsync(partial.descriptor)
        assert cached_bytes(partial.path) <= 2 * PAGE_BYTES  # where the parts meet, and the end
        assert partial.path.read_bytes() == BIG


def test_pages_stay_in_the_cache_until_they_are_hashed(tight: Store) -> None:
    plan = plan_of(MemorySource({"big": BIG}))
    [file] = plan.manifest.files
    with tight.incoming.open(plan.keys[file.path], file, threading.Event(), cached=False) as partial:
        assert partial is not None
        segmented = SegmentedFile(file, partial, FileHasher)
        first, second = segmented.take_segment(2**20), segmented.take_segment(2**20)
        assert first is not None
        assert second is not None
        segmented.write(second, ROOM)
        assert cached_bytes(partial.path) >= 2**20
        segmented.write(first, ROOM)
        assert absent_pages(partial.descriptor, 0, 2**20) == [(0, 2**20)]


def test_a_download_that_ends_within_a_page_resumes_from_there(fetch_blobs: FetchBlobs, tight: Store) -> None:
    source = MemorySource({"big": BIG})
    source.faults.truncate_at["big"] = HELD
    with pytest.raises(Unreachable):
        fetch_blobs(source, tight)
    assert tight.space.missing_bytes(plan_of(source)) == len(BIG) - HELD
    source.faults.truncate_at.clear()
    blob = tight.blobs.path(fetch_blobs(source, tight).blobs["big"])
    assert source.served_bytes == len(BIG)
    assert blob.read_bytes() == BIG


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],  # each example has a folder of its own
)
@given(parts=st.lists(st.tuples(st.integers(1, 5 * PAGE_BYTES), st.booleans()), max_size=12))
def test_a_file_is_the_same_however_its_parts_are_written(disk: Path, parts: list[tuple[int, bool]]) -> None:
    body = random.Random(0).randbytes(sum(size for size, _ in parts))
    with (
        tempfile.TemporaryDirectory(dir=disk) as folder,
        closing(open_partial(Path(folder), "0" * 64, len(body), digest=True, cached=False)) as partial,
    ):
        offset = 0
        for size, once in parts:
            start = offset % partial.grain
            ROOM[start : start + size] = body[offset : offset + size]
            partial.write(ROOM[start : start + size], offset, once=once)
            offset += size
        assert partial.path.read_bytes() == body


def test_parts_of_a_page_are_written_through_the_cache(disk: Path) -> None:
    descriptor = os.open(disk / "file", os.O_RDWR | os.O_CREAT)
    uncached = DirectWriter(descriptor)
    try:
        assert uncached.write(ROOM[:PAGE_BYTES], 1) == 0
        assert uncached.write(ROOM[: PAGE_BYTES - 1], 0) == 0
        assert uncached.write(ROOM[: 2 * PAGE_BYTES + 1], PAGE_BYTES) == 2 * PAGE_BYTES
    finally:
        uncached.close()
        os.close(descriptor)


def test_direct_writes_are_not_retried_after_the_kernel_refused_one(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def refuse(descriptor: int, data: memoryview, offset: int) -> int:
        del descriptor, data
        asked.append(offset)
        raise OSError(errno.EINVAL, "Invalid argument")

    with (disk / "file").open("wb") as file, monkeypatch.context() as patched:
        uncached = DirectWriter(file.fileno())
        patched.setattr(os, "pwrite", refuse)
        assert [uncached.write(ROOM, 0), uncached.write(ROOM, 0)] == [0, 0]
        uncached.close()
    assert asked == [0]


def test_a_file_system_without_a_block_device_is_written_to_through_the_cache(
    fetch_blobs: FetchBlobs, small_disk: Path
) -> None:
    with closing(Store.open(small_disk / "root", disk=TightDisk())) as store:
        body = BIG[: 4 * 2**20 + 5]
        blob = store.blobs.path(fetch_blobs(MemorySource({"big": body}), store).blobs["big"])
        assert blob.read_bytes() == body


@pytest.fixture
def small_ext4(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 16 MiB on a loop device."""
    if os.geteuid() or not shutil.which("mkfs.ext4"):
        pytest.skip("mounting a small ext4 takes root and e2fsprogs")
    image, path = tmp_path / "image", tmp_path / "ext4"
    path.mkdir()
    subprocess.run(["mkfs.ext4", "-q", str(image), "16M"], check=True, capture_output=True)  # noqa: S603, S607 - fixed arguments
    mounted = subprocess.run(["mount", "-o", "loop", str(image), str(path)], check=False, capture_output=True)  # noqa: S603, S607 - as above
    if mounted.returncode:
        pytest.skip(f"mounting a small ext4 takes a loop device: {mounted.stderr.decode()}")
    yield path
    subprocess.run(["umount", str(path)], check=True)  # noqa: S603, S607 - as above


def test_a_disk_that_fills_up_during_direct_writes_keeps_the_received_bytes(
    fetch_blobs: FetchBlobs, small_ext4: Path
) -> None:
    source = MemorySource({"big": BIG})
    with closing(Store.open(small_ext4 / "root", disk=TightDisk())) as store:
        others = small_ext4 / "others"
        with others.open("wb") as taken:
            os.posix_fallocate(taken.fileno(), 0, store.space.free_bytes() - 3 * 2**20)
        with pytest.raises(InsufficientStorage, match="No space left on device; free space"):
            fetch_blobs(source, store)
        held = len(BIG) - store.space.missing_bytes(plan_of(source))
        assert held >= 2**20
        others.unlink()
        before = source.served_bytes
        blob = store.blobs.path(fetch_blobs(source, store).blobs["big"])
        assert source.served_bytes - before == len(BIG) - held
        assert blob.read_bytes() == BIG
