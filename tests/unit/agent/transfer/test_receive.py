"""Segments from a server that ignores Range; the clock advances with the bytes that it sends."""

import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from agent.store.partials import open_partial
from agent.store.verify import FileHasher
from agent.transfer.progress import Progress
from agent.transfer.rate_limit import RateLimiter
from agent.transfer.receive import DownloadContext, Stopped, receive
from agent.transfer.segmented_file import Segment, SegmentedFile
from shared.errors import Unreachable
from shared.manifest import File
from shared.sources.memory import MemoryBody, MemorySource
from shared.sources.port import Body

CONTENT = (bytes(range(251)) * 4_000)[:1_000_000]
HALF = len(CONTENT) // 2


class Slow(MemorySource):
    """Sends a file from its start, with so many bytes a second of `now`; `passed_bytes` came before what was wanted."""

    def __init__(self, rate: float) -> None:
        super().__init__({"w": CONTENT})
        self.rate, self.now, self.passed_bytes = rate, 0.0, 0
        self.before_pass: Callable[[], None] = lambda: None

    def open(self, file: File, offset: int = 0, length: int | None = None) -> Body:
        end = file.size if length is None else offset + length
        return SlowBody(self, file.path, offset, end)

    def clock(self) -> float:
        return self.now


class SlowBody(MemoryBody):
    def __init__(self, slow: Slow, path: str, position: int, end: int) -> None:
        super().__init__(slow, path, position, end)
        self._slow, self._skip_bytes, self.skips = slow, position, position > 0

    def skip(self, max_bytes: int) -> int:
        size = min(max_bytes, self._skip_bytes)
        if size:
            self._slow.before_pass()
        self._skip_bytes -= size
        self._slow.passed_bytes += size
        self._slow.now += size / self._slow.rate
        return size

    def readinto(self, buffer: memoryview) -> int:
        self.skip(self._skip_bytes)
        size = super().readinto(buffer[: 64 * 1024])
        self._slow.now += size / self._slow.rate
        return size


@pytest.fixture
def segmented() -> Iterator[SegmentedFile]:
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(open_partial(Path(folder), "0" * 64, len(CONTENT), digest=True)) as partial,
    ):
        yield SegmentedFile(File("w", len(CONTENT)), partial, FileHasher)


def second_half(segmented: SegmentedFile) -> Segment:
    first = segmented.take_segment(HALF)
    assert first is not None
    segmented.write(first, memoryview(CONTENT)[:HALF])
    segmented.give_back(first)
    segment = segmented.take_segment()
    assert segment is not None
    return segment


def path_of(slow: Slow, progress: Progress | None = None, rate_limiter: RateLimiter | None = None) -> DownloadContext:
    progress = progress or Progress()
    return DownloadContext(slow, rate_limiter or RateLimiter(), progress, lambda _: None, threading.Event(), slow.clock)


def test_time_spent_on_skipped_bytes_does_not_count_against_the_wanted_ones(segmented: SegmentedFile) -> None:
    """The skipping takes a minute and a half, and the wanted bytes are no slower than the skipped ones."""
    slow, segment, progress = Slow(rate=11_000), second_half(segmented), Progress()
    receive(path_of(slow, progress), segmented, segment, memoryview(bytearray(2**18)))
    assert segmented.missing_bytes == 0
    assert not segmented.divisible
    assert (slow.passed_bytes, progress.received, progress.done) == (HALF, len(CONTENT), HALF)
    assert segmented.partial.path.read_bytes() == CONTENT


def test_a_body_is_abandoned_if_its_skipped_bytes_arrive_too_slowly(segmented: SegmentedFile) -> None:
    slow, segment = Slow(rate=1000), second_half(segmented)
    with pytest.raises(Unreachable, match="'w' arrived at only 1000 bytes per second"):
        receive(path_of(slow), segmented, segment, memoryview(bytearray(2**14)))
    assert slow.passed_bytes < HALF
    assert segmented.missing_bytes == HALF


def test_a_stop_ends_the_skipping_of_bytes(segmented: SegmentedFile) -> None:
    slow, segment = Slow(rate=1e6), second_half(segmented)
    path = path_of(slow)
    slow.before_pass = path.stop.set
    with pytest.raises(Stopped):
        receive(path, segmented, segment, memoryview(bytearray(2**14)))
    assert slow.passed_bytes == 2**14
    assert segmented.missing_bytes == HALF


def test_skipping_draws_from_the_rate_limit_in_small_steps(segmented: SegmentedFile) -> None:
    slow, segment = Slow(rate=1e6), second_half(segmented)
    path = path_of(slow, rate_limiter=RateLimiter(rate=1e-3, clock=lambda: slow.now))
    slow.now = 1e9  # the bucket is full: one more grain, on credit
    slow.before_pass = path.stop.set
    with pytest.raises(Stopped):
        receive(path, segmented, segment, memoryview(bytearray(2**14)))
    assert slow.passed_bytes == 4096
