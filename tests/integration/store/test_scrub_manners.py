"""How the scrub avoids disturbing others: a rate limit, low priorities, and direct reads."""

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from agent.store.scrub import Scrubber, ScrubFigures
from agent.store.snapshot import Snapshot
from agent.store.store import Store
from shared.sources.memory import MemorySource
from tests.integration.store.kernel_view import IDLE, flags_of_open, io_class_of, nice_of, skip_without_direct_reads

FetchModel = Callable[[MemorySource, Store, str], Snapshot]
PIECE_BYTES = 2**20
SLOW = 100_000
BEFORE = os.getpriority(os.PRIO_PROCESS, 0)


class Waits(threading.Event):
    """An event that is never set: it records each wait and advances its clock by that time.

    Each look at the clock takes `look_s`, as work between two looks does.
    """

    def __init__(self, look_s: float) -> None:
        super().__init__()
        self.waited_s: list[float] = []
        self.now_s, self._look_s = 0.0, look_s

    def clock(self) -> float:
        self.now_s += self._look_s
        return self.now_s

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.waited_s.append(timeout)
        self.now_s += timeout
        return False


def passed(store: Store, waits: Waits) -> int:
    """Return the bytes of one whole pass at the slow rate."""
    scrub = Scrubber(store, SLOW, 0, ScrubFigures(), lambda: None, waits, waits.clock)
    assert scrub.read_pass()
    return scrub.figures.size_bytes


def test_a_pass_spreads_its_waits_evenly_to_keep_the_rate(
    fetch_model: FetchModel, source: MemorySource, store: Store
) -> None:
    fetch_model(source, store, "llama")
    waits = Waits(look_s=0.0)
    size_bytes = passed(store, waits)
    assert size_bytes == sum(map(len, set(source.files.values())))
    assert sum(waits.waited_s) == pytest.approx(size_bytes / SLOW)
    assert max(waits.waited_s) == PIECE_BYTES / SLOW  # evenly, and not all at the end of a file


def test_the_waits_are_shortened_by_the_time_spent_reading(
    fetch_model: FetchModel, source: MemorySource, store: Store
) -> None:
    fetch_model(source, store, "llama")
    waits = Waits(look_s=0.5)
    size_bytes = passed(store, waits)
    assert sum(waits.waited_s) < size_bytes / SLOW - 0.5 * size_bytes // PIECE_BYTES
    assert waits.now_s >= size_bytes / SLOW  # and the rate is never above what it may be


def test_a_pass_does_not_wait_if_reading_is_slower_than_the_rate(
    fetch_model: FetchModel, source: MemorySource, store: Store
) -> None:
    fetch_model(source, store, "llama")
    waits = Waits(look_s=PIECE_BYTES / SLOW)
    passed(store, waits)
    assert set(waits.waited_s) == {0.0}


@dataclass(frozen=True)
class Seen:
    """A scrub during a file, as the kernel reports it: its thread, and the flags of open blobs."""

    nice: int
    io_class: int
    flags: list[int]


class Looks(threading.Event):
    """An event that inspects the thread waiting for it, once, and is then set."""

    def __init__(self, store: Store) -> None:
        super().__init__()
        self.seen: list[Seen] = []
        self._store = store

    def wait(self, timeout: float | None = None) -> bool:
        if not self.is_set():
            thread, pid = threading.get_native_id(), os.getpid()
            flags = flags_of_open(pid, self._store.layout.blobs)
            self.seen.append(Seen(nice_of(pid, thread), io_class_of(thread), flags))
            self.set()
        return super().wait(timeout)


@pytest.fixture
def looks(fetch_model: FetchModel, source: MemorySource, store: Store) -> Looks:
    """A scrub in its own thread, as in the agent, up to its first wait."""
    fetch_model(source, store, "llama")
    looks = Looks(store)
    thread = threading.Thread(target=Scrubber(store, SLOW, 0, ScrubFigures(), lambda: None, looks).run)
    thread.start()
    thread.join()
    return looks


def test_only_the_scrub_thread_has_the_lowest_cpu_and_io_priority(looks: Looks) -> None:
    (seen,) = looks.seen
    assert (seen.nice, seen.io_class) == (19, IDLE)
    assert io_class_of(threading.get_native_id()) != IDLE
    assert os.getpriority(os.PRIO_PROCESS, 0) == BEFORE


def test_the_scrub_reads_with_direct_io(looks: Looks, store: Store) -> None:
    skip_without_direct_reads(next(iter(store.blobs.paths().values())))
    (flags,) = looks.seen[0].flags
    assert flags & os.O_DIRECT
