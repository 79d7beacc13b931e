"""A process that has no open files left: what it cannot read is not gone."""

import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from agent.store.snapshot import Snapshot
from agent.store.store import Store
from agent.transfer.engine import FetchResult
from shared.errors import StoreFailure, Unreachable
from shared.sources.memory import MemorySource
from tests.builders.stores import plan_of


@contextmanager
def no_open_files_left() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    opened = [os.open(os.devnull, os.O_RDONLY)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 1, hard))  # noqa: PTH208 - they are numbers
    try:
        with suppress(OSError):
            while True:
                opened.append(os.open(os.devnull, os.O_RDONLY))
        yield
    finally:
        for descriptor in opened:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_snapshots_that_cannot_be_listed_for_lack_of_open_files_are_not_taken_for_removed(
    fetch_model: Callable[..., Snapshot], source: MemorySource, store: Store
) -> None:
    snapshot = fetch_model(source, store)
    with no_open_files_left(), pytest.raises(StoreFailure, match="Too many open files; raise the limit"):
        store.snapshots.all()
    assert store.snapshots.all() == [snapshot]


def test_bytes_whose_map_cannot_be_read_for_lack_of_open_files_are_not_taken_for_missing(
    fetch_blobs: Callable[..., FetchResult], store: Store
) -> None:
    source = MemorySource({"weights": b"0" * 1000})
    source.faults.truncate_at["weights"] = 600
    with pytest.raises(Unreachable):
        fetch_blobs(source, store)
    plan = plan_of(source)
    assert store.space.missing_bytes(plan) == 400
    with no_open_files_left(), pytest.raises(StoreFailure, match="Too many open files; raise the limit"):
        store.space.missing_bytes(plan)
