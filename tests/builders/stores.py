"""Fixtures: a store on a real file system, and a source in memory with faults that tests enable."""

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import pytest

from agent.store.download_plan import DownloadPlan
from agent.store.snapshot import Snapshot
from agent.store.store import Store
from agent.transfer.engine import FetchResult, fetch
from agent.transfer.progress import Progress
from shared.manifest import Manifest
from shared.sources.memory import MemoryRepository, MemorySource
from shared.sources.port import Source
from shared.sources.retry import RetryPolicy
from tests.builders.disks import tmpfs

FILES = {
    "config.json": b'{"model_type": "llama"}',
    "model-00001-of-00002.safetensors": os.urandom(3 * 2**20 + 17),
    "model-00002-of-00002.safetensors": os.urandom(5 * 2**20 + 1),
    "original/params.json": b'{"dim": 4096}',
    "original/config.json": b'{"model_type": "llama"}',  # the same bytes as at another path
    "empty.txt": b"",
}


class Fetch(Protocol):
    """`fetch` with a store, and with time-outs for tests."""

    def __call__(
        self,
        source: MemorySource,
        store: Store,
        *,
        manifest: Manifest | None = None,
        progress: Progress | None = None,
        stop: threading.Event | None = None,
        reservation: str = "",
        prove_access: bool = True,
    ) -> FetchResult: ...


def plan_of(source: Source) -> DownloadPlan:
    """Return the plan for the files of a source."""
    return DownloadPlan(source.resolve())


@pytest.fixture
def source() -> MemorySource:
    return MemoryRepository(FILES)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def store(root: Path) -> Iterator[Store]:
    opened = Store.open(root)
    opened.recover()
    yield opened
    opened.close()


@pytest.fixture
def fetch_blobs() -> Fetch:
    """Fetch everything that is missing, with short time-outs."""

    def run(  # a fixture's function: the arguments are those of `fetch`
        source: MemorySource,
        store: Store,
        *,
        manifest: Manifest | None = None,
        progress: Progress | None = None,
        stop: threading.Event | None = None,
        reservation: str = "",
        prove_access: bool = True,
    ) -> FetchResult:
        return fetch(
            source,
            DownloadPlan(manifest or source.resolve()),
            store,
            progress=progress or Progress(),
            stop=stop or threading.Event(),
            reservation=reservation,
            prove_access=prove_access,
            policy=RetryPolicy(attempts=3, timeout_s=5, first_s=0.001, cap_s=0.01),
        )

    return run


@pytest.fixture
def fetch_model(fetch_blobs: Fetch) -> Callable[..., Snapshot]:
    """Fetch and commit a model under an id, as the agent does."""

    def run(source: MemorySource, store: Store, identity: str = "llama", reservation: str = "") -> Snapshot:
        manifest = source.resolve()
        result = fetch_blobs(source, store, manifest=manifest, reservation=reservation)
        return store.snapshots.commit(DownloadPlan(manifest), identity, result.blobs, result.unpacked)

    return run


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 6 MiB; skips the test if mounting is not permitted."""
    with tmpfs(tmp_path / "small-disk", "6m") as path:
        yield path
