import hashlib
import itertools
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.store.partials import held_ranges, open_partial
from agent.store.verify import FileHasher
from agent.transfer.segmented_file import PIECE_BYTES, Segment, SegmentedFile
from rig.processes import wait_until
from shared.byte_ranges import ByteRange, ByteRanges
from shared.manifest import File

KEY = "0" * 64
SOON_S = 60
SEVERAL_LOOKS_S = 0.5  # the hashing thread checks every 0.2 s


@contextmanager
def begun(size: int, folder: Path | None = None, *, digest: bool = True) -> Iterator[SegmentedFile]:
    with (
        tempfile.TemporaryDirectory() as fresh,
        closing(open_partial(folder or Path(fresh), KEY, size, digest=digest)) as partial,
    ):
        yield SegmentedFile(File("weights", size), partial, FileHasher)


def taken(segment: Segment | None) -> Segment:
    assert segment is not None
    return segment


def put(segmented: SegmentedFile, segment: Segment, size: int) -> None:
    """Write the next bytes of a segment, as a source that has the file would send them."""
    size = min(size, segment.left.size_bytes)
    segmented.write(segment, memoryview(bytes((segment.position + n) % 251 for n in range(size))))


@given(
    size=st.integers(1, 400),
    steps=st.lists(st.tuples(st.sampled_from(["take", "piece", "write", "leave"]), st.integers(0, 60)), max_size=60),
)
def test_segments_in_any_order_give_the_whole_file(size: int, steps: list[tuple[str, int]]) -> None:
    with begun(size) as segmented:
        segments: list[Segment] = []
        for move, number in steps:
            if move in ("take", "piece"):
                if segment := segmented.take_segment(number + 1 if move == "piece" else None):
                    segments.append(segment)
            elif segments and move == "write":
                put(segmented, segments[number % len(segments)], number)
            elif segments:
                segmented.give_back(segments.pop(number % len(segments)))
            lefts = sorted(segment.left for segment in segments if segment.left.size_bytes)
            assert all(before.end <= after.start for before, after in itertools.pairwise(lefts))
        for segment in segments:
            segmented.give_back(segment)
        held = list(segmented.partial.held)
        reported = list(held_ranges(segmented.partial.path.parent, KEY, size, digest=True))
        assert list(ByteRanges([*held, *reported])) == held
        assert reported == held or not segmented.missing_bytes  # the last bytes of a whole file need not be reported
        while segment := segmented.take_segment():
            put(segmented, segment, size)
            segmented.give_back(segment)
        assert segmented.missing_bytes == 0
        assert segmented.partial.path.read_bytes() == bytes(n % 251 for n in range(size))


def test_recorded_segments_survive_a_kill(tmp_path: Path) -> None:
    with begun(1000, tmp_path) as segmented:
        first, last = taken(segmented.take_segment(100)), taken(segmented.take_segment(900))
        put(segmented, first, 40)
        put(segmented, last, 500)
        for segment in (first, last):
            segmented.give_back(segment)
    with begun(1000, tmp_path) as segmented:
        assert list(segmented.partial.held) == [ByteRange(0, 40), ByteRange(100, 600)]
        assert taken(segmented.take_segment()).left == ByteRange(40, 100)


def test_a_kill_loses_at_most_128_kib_per_connection(tmp_path: Path) -> None:
    size, step = 2**22, 2**14
    with begun(size, tmp_path) as segmented:
        segments = [taken(segmented.take_segment(2**20)) for _ in range(4)]
        for _ in range(37):
            for segment in segments:
                put(segmented, segment, step)
        reported = held_ranges(
            tmp_path, KEY, size, digest=True
        ).size_bytes  # what the next process would find after a kill at this moment
        assert segmented.partial.held.size_bytes - reported <= len(segments) * 2**17


def test_bytes_of_an_earlier_boot_count_only_if_a_digest_verifies_them(tmp_path: Path) -> None:
    with begun(1000, tmp_path) as segmented:
        segment = taken(segmented.take_segment())
        put(segmented, segment, 500)
        segmented.give_back(segment)
    reported = tmp_path / f"{KEY}.map"
    reported.write_text("another-boot\n" + reported.read_text().partition("\n")[2])
    assert held_ranges(tmp_path, KEY, 1000, digest=True).size_bytes == 500
    assert held_ranges(tmp_path, KEY, 1000, digest=False).size_bytes == 0


def test_a_leftover_map_without_its_file_is_ignored(tmp_path: Path) -> None:
    reported = tmp_path / f"{KEY}.map"
    reported.write_text("boot\n0 1000\n")
    with begun(1000, tmp_path) as segmented:
        segment = taken(segmented.take_segment())
        put(segmented, segment, 10)
        segmented.give_back(segment)
        assert list(held_ranges(tmp_path, KEY, 1000, digest=True)) == [ByteRange(0, 10)]


def test_a_line_cut_short_by_a_crash_is_ignored(tmp_path: Path) -> None:
    with begun(1000, tmp_path) as segmented:
        segment = taken(segmented.take_segment(100))
        put(segmented, segment, 100)
        segmented.give_back(segment)
    with (tmp_path / f"{KEY}.map").open("ab") as reported:
        reported.write(b"1")
    with begun(1000, tmp_path) as segmented:
        segment = taken(segmented.take_segment(50))
        put(segmented, segment, 50)
        segmented.give_back(segment)
    assert list(held_ranges(tmp_path, KEY, 1000, digest=True)) == [ByteRange(0, 150)]


def test_sharing_shortens_the_segment_of_the_receiver_with_a_long_rest() -> None:
    with begun(10 * PIECE_BYTES) as segmented:
        first = taken(segmented.take_segment())
        second = taken(segmented.split_segment())
        assert (first.left, second.left) == (ByteRange(0, PIECE_BYTES), ByteRange(PIECE_BYTES, 2 * PIECE_BYTES))
        segmented.divisible = False
        assert segmented.split_segment() is None


def test_starting_over_discards_the_bytes_of_earlier_segments() -> None:
    with begun(1000) as segmented:
        before, segment = segmented.hashing, taken(segmented.take_segment())
        put(segmented, segment, 400)
        assert segmented.discard() == 400
        assert segmented.hashing.done == 0
        assert segment.left.size_bytes == 0
        segmented.write(segment, memoryview(b"late"))
        segmented.give_back(segment)
        assert segmented.missing_bytes == 1000
        assert segmented.take_unhashed(before, threading.Event()) is None
        again = taken(segmented.take_segment())
        assert again.left == ByteRange(0, 1000)


@contextmanager
def writing_late(segmented: SegmentedFile, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Start a write of 400 bytes that ends once the event is set."""
    segment, began, may_write = taken(segmented.take_segment()), threading.Event(), threading.Event()
    write = segmented.partial.write

    def write_late(data: memoryview, offset: int, *, once: bool = False) -> None:
        began.set()
        assert may_write.wait(SOON_S)
        write(data, offset, once=once)

    monkeypatch.setattr(segmented.partial, "write", write_late)
    with ThreadPoolExecutor() as threads:
        late = threads.submit(put, segmented, segment, 400)
        assert began.wait(SOON_S)
        try:
            yield may_write
        finally:
            may_write.set()
        late.result(SOON_S)


def test_starting_over_waits_for_running_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the old bytes could overwrite the new ones, which are hashed from memory."""
    with begun(1000) as segmented, ThreadPoolExecutor() as threads:
        before = segmented.hashing
        with writing_late(segmented, monkeypatch) as may_write:
            discarded = threads.submit(segmented.discard)
            wait_until(lambda: segmented.hashing is not before, SOON_S, "the start of the discard")
            assert not discarded.done()
            assert segmented.take_segment() is None
            assert segmented.missing_bytes == 1000
            may_write.set()
            discarded.result(SOON_S)
        assert segmented.partial.path.stat().st_size == 0
        assert segmented.missing_bytes == 1000
        assert taken(segmented.take_segment()).left == ByteRange(0, 1000)


def test_two_threads_may_start_over_at_once_and_the_end_of_retries_is_final(monkeypatch: pytest.MonkeyPatch) -> None:
    with begun(1000) as segmented, ThreadPoolExecutor() as threads:
        before = segmented.hashing
        with writing_late(segmented, monkeypatch) as may_write:
            discarded = [threads.submit(segmented.discard, give_up=give_up) for give_up in (True, False)]
            wait_until(lambda: segmented.hashing is not before, SOON_S, "the start of a discard")
            may_write.set()
            assert [one.result(SOON_S) for one in discarded] == [0, 0]
        assert segmented.take_segment() is None
        assert segmented.missing_bytes == 1000


def test_a_finished_file_is_not_started_over() -> None:
    """The file may already be a blob, which would be emptied."""
    with begun(1000) as segmented:
        before = segmented.hashing
        segmented.discard()
        assert not segmented.finish(before)
        segment = taken(segmented.take_segment())
        put(segmented, segment, 1000)
        assert segmented.finish(segmented.hashing)
        assert segmented.discard() == 0
        assert segmented.partial.path.stat().st_size == 1000


@given(
    size=st.integers(0, 300),
    steps=st.lists(
        st.tuples(st.sampled_from(["take", "write", "catch up", "start over"]), st.integers(0, 60)), max_size=60
    ),
)
def test_every_byte_is_hashed_once_in_order_by_any_thread(size: int, steps: list[tuple[str, int]]) -> None:
    with begun(size) as segmented:
        segments: list[Segment] = []
        for move, number in steps:
            if move == "take" and (segment := segmented.take_segment(number + 1)):
                segments.append(segment)
            elif move == "write" and segments:
                put(segmented, segments[number % len(segments)], number)
            elif move == "catch up" and segmented.partial.held.front > segmented.hashing.done:
                catch_up(segmented)
            elif move == "start over" and number == 0:
                segmented.discard()
        for segment in segments:
            segmented.give_back(segment)
        while segment := segmented.take_segment():
            put(segmented, segment, size)
            segmented.give_back(segment)
        while catch_up(segmented):
            pass
        assert segmented.hashing.whole
        assert segmented.hashing.hasher.sha256 == hashlib.sha256(bytes(n % 251 for n in range(size))).hexdigest()


def catch_up(segmented: SegmentedFile) -> int:
    """Hash the bytes that are present but not hashed, as the hashing thread does; return their number."""
    hashing = segmented.hashing
    unhashed = segmented.take_unhashed(hashing, threading.Event())
    assert unhashed is not None
    if unhashed.size_bytes:
        hashing.feed(memoryview(segmented.partial.path.read_bytes())[unhashed.start : unhashed.end])
        segmented.release_hash(hashing)
    return unhashed.size_bytes


def test_a_receiver_hashes_its_own_bytes_unless_another_thread_is_hashing() -> None:
    with begun(100) as segmented:
        segment = taken(segmented.take_segment())
        put(segmented, segment, 40)
        assert segmented.hashing.done == 40
        segmented.hashing.busy = True
        put(segmented, segment, 20)
        assert segmented.hashing.done == 40
        segmented.release_hash(segmented.hashing)
        assert catch_up(segmented) == 20
        put(segmented, segment, 40)
        assert segmented.hashing.whole


@contextmanager
def waiting_for_a_receiver() -> Iterator[tuple[SegmentedFile, Future[ByteRange | None], threading.Event]]:
    """Let the hashing thread wait for 40 unhashed bytes while a receiver holds the hash; the event stops it."""
    stop = threading.Event()
    with begun(100) as segmented, ThreadPoolExecutor() as threads:
        assert segmented.hashing.take(0)
        put(segmented, taken(segmented.take_segment()), 40)
        unhashed = threads.submit(segmented.take_unhashed, segmented.hashing, stop)
        try:
            with pytest.raises(TimeoutError):
                unhashed.result(SEVERAL_LOOKS_S)
            yield segmented, unhashed, stop
        finally:
            stop.set()


def test_the_hashing_thread_waits_until_the_receiver_releases_the_hash() -> None:
    with waiting_for_a_receiver() as (segmented, unhashed, _):
        segmented.release_hash(segmented.hashing)
        assert unhashed.result(SOON_S) == ByteRange(0, 40)
        assert segmented.hashing.busy


def test_a_stop_ends_the_wait_of_the_hashing_thread_without_bytes() -> None:
    with waiting_for_a_receiver() as (segmented, unhashed, stop):
        stop.set()
        assert unhashed.result(SOON_S) is None
        assert segmented.hashing.done == 0
