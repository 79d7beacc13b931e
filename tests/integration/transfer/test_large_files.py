"""Large files over several connections: shared by receivers, and resumed after a stop."""

import hashlib
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.store.content_keys import keys_by_path
from agent.store.store import Store
from agent.transfer.engine import FetchResult
from agent.transfer.receive import Stopped
from agent.transfer.segmented_file import PIECE_BYTES
from rig.processes import wait_until
from shared.errors import DigestMismatch, Unreachable
from shared.manifest import File
from shared.sources.memory import MemoryBody, MemorySource
from shared.sources.port import Body
from tests.builders.stores import plan_of
from tests.integration.transfer.threads import fetching_threads

FetchBlobs = Callable[..., FetchResult]
BIG = os.urandom(3 * PIECE_BYTES + 12345)
SMALLER = os.urandom(6 * 2**20)
SOON_S = 60


class Shared(MemorySource):
    """Two files; the larger one waits, early in its first body, until a second receiver helps."""

    def __init__(self) -> None:
        super().__init__({"big": BIG, "smaller": SMALLER})
        self.opened: list[tuple[str, int, int | None]] = []
        self.helped = threading.Event()
        self.faults.before_read = self._wait_for_help

    def open(self, file: File, offset: int = 0, length: int | None = None) -> Body:
        self.opened.append((file.path, offset, length))
        if file.path == "big" and offset:
            self.helped.set()
        return super().open(file, offset, length)

    def _wait_for_help(self, path: str, position: int) -> None:
        if path == "big" and position >= 2**20:
            assert self.helped.wait(SOON_S)


def test_an_idle_receiver_helps_with_the_largest_file(fetch_blobs: FetchBlobs, store: Store) -> None:
    source = Shared()
    result = fetch_blobs(source, store)
    assert result.blobs["big"] == hashlib.sha256(BIG).hexdigest()
    first, *others = [(offset, length) for path, offset, length in source.opened if path == "big"]
    assert first == (0, None)
    assert len(others) >= 2
    assert all(length is None or length <= PIECE_BYTES for _, length in others)
    assert result.received_bytes == len(BIG) + len(SMALLER)  # no byte was received twice


def test_a_source_without_range_support_is_read_by_one_receiver_at_a_time(
    fetch_blobs: FetchBlobs, store: Store
) -> None:
    class FromTheStart(Shared):
        """A source like a server that ignores Range."""

        def open(self, file: File, offset: int = 0, length: int | None = None) -> Body:
            body = super().open(file, offset, length)
            assert isinstance(body, MemoryBody)
            body.skips = offset > 0
            return body

    source = FromTheStart()
    result = fetch_blobs(source, store)
    assert result.blobs["big"] == hashlib.sha256(BIG).hexdigest()
    assert len([path for path, _, _ in source.opened if path == "big"]) <= 3


def test_a_stop_keeps_the_bytes_of_every_receiver(fetch_blobs: FetchBlobs, store: Store) -> None:
    source, stop = Shared(), threading.Event()

    def stop_far_in(path: str, position: int) -> None:
        if path == "big" and position >= 2**20:
            assert source.helped.wait(SOON_S)
        if position >= PIECE_BYTES + 3 * 2**20:  # from the second receiver, which began below 17 MiB
            stop.set()

    source.faults.before_read = stop_far_in
    with pytest.raises(Stopped):
        fetch_blobs(source, store, stop=stop)
    wait_until(lambda: fetching_threads() == 0, SOON_S, "the last receiver to leave")
    left = store.space.missing_bytes(plan_of(source))
    assert left < len(BIG) - 2 * 2**20
    source.faults.before_read = None
    assert fetch_blobs(source, store).received_bytes == left


def test_an_interrupted_segment_resumes_without_repeating_bytes(fetch_blobs: FetchBlobs, store: Store) -> None:
    source, broken = Shared(), threading.Event()

    def break_once(path: str, position: int) -> None:
        if path == "big" and 2**20 <= position < PIECE_BYTES:
            assert source.helped.wait(SOON_S)
        if path == "big" and position >= PIECE_BYTES + 2**20 and not broken.is_set():
            broken.set()
            raise Unreachable("reset")

    source.faults.before_read = break_once
    assert fetch_blobs(source, store).received_bytes == len(BIG) + len(SMALLER)
    assert broken.is_set()


def test_a_large_file_with_wrong_bytes_is_fetched_once_more_and_then_refused(
    fetch_blobs: FetchBlobs, store: Store
) -> None:
    source = Shared()
    source.faults.corrupt.add("big")
    with pytest.raises(DigestMismatch, match="'big'"):
        fetch_blobs(source, store)
    assert source.served_bytes == 2 * len(BIG) + len(SMALLER)
    assert store.space.missing_bytes(plan_of(source)) == len(BIG)


def test_a_partial_file_truncated_on_disk_is_fetched_again(fetch_blobs: FetchBlobs, store: Store, root: Path) -> None:
    source, cut = Shared(), threading.Event()
    manifest = source.resolve()
    key = keys_by_path(manifest.uri, manifest.revision, manifest.files)["big"]

    def cut_once(path: str, position: int) -> None:
        if path == "big" and position >= 2**20 and not cut.is_set():
            cut.set()
            os.truncate(root / "partial" / f"{key}.part", 0)

    source.faults.before_read = cut_once
    result = fetch_blobs(source, store)
    assert cut.is_set()
    assert result.blobs["big"] == hashlib.sha256(BIG).hexdigest()
