"""Requests that are abandoned and repeated: slow bodies and expired signed links."""

import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.store.store import Store
from agent.transfer.engine import FetchResult, fetch
from agent.transfer.file_download import SMALL_BYTES
from agent.transfer.progress import Progress
from rig.hub import Hub, Truncate
from shared.manifest import File
from shared.sources.memory import MemorySource
from shared.sources.port import ANONYMOUS, Body, Source
from shared.sources.retry import RetryPolicy, Timing
from shared.sources.schemes import open_source
from shared.sources.settings import SourceSettings
from shared.uri.model_uri import parse_uri
from tests.builders.stores import plan_of
from tests.readers.sources import drain

NAME, REPO = "model.safetensors", "asked-again/llama"
WEIGHTS = random.Random(1).randbytes(SMALL_BYTES + 2**20)
STEP_BYTES, STEP_S = 1000, 5.0  # 200 bytes per second


def fetch_blobs(source: Source, store: Store, timing: Timing | None = None) -> FetchResult:
    """Fetch everything by one connection at first, without long pauses."""
    return fetch(
        source,
        plan_of(source),
        store,
        progress=Progress(),
        stop=threading.Event(),
        concurrency=1,
        policy=RetryPolicy(first_s=0.001, cap_s=0.01),
        timing=timing,
    )


class DrippingSource(MemorySource):
    """Delivers slowly until it is requested again; `now` is the time, `starts` has the offset of each request."""

    def __init__(self, body: bytes) -> None:
        super().__init__({NAME: body})
        self.now, self.starts = 0.0, list[int]()
        self.faults.max_bytes = STEP_BYTES
        self.faults.before_read = self._drip

    def open(self, file: File, offset: int = 0, length: int | None = None) -> Body:
        self.starts.append(offset)
        if len(self.starts) > 1:
            self.faults.max_bytes = self.faults.before_read = None
        return super().open(file, offset, length)

    def _drip(self, path: str, position: int) -> None:
        del path, position
        self.now += STEP_S


@pytest.mark.parametrize("size", [SMALL_BYTES // 4, len(WEIGHTS)], ids=["small", "large"])
def test_a_slow_body_is_abandoned_and_requested_again_from_where_it_stopped(size: int, store: Store) -> None:
    source = DrippingSource(WEIGHTS[:size])
    result = fetch_blobs(source, store, Timing(lambda: source.now))
    assert source.starts[0] == 0
    assert min(source.starts[1:], default=0) in range(STEP_BYTES, 20 * STEP_BYTES, STEP_BYTES)
    assert store.blobs.path(result.blobs[NAME]).read_bytes() == WEIGHTS[:size]
    assert source.served_bytes == result.received_bytes == size


@pytest.fixture
def hub_source(hub: Hub, tmp_path: Path) -> Iterator[Source]:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / NAME).write_bytes(WEIGHTS)
    hub.push(REPO, tmp_path / "model")
    settings = SourceSettings(hf_endpoint=hub.endpoint, allow_addresses=("127.0.0.1",))
    source = open_source(parse_uri(f"hf://{REPO}"), ANONYMOUS, settings)
    yield source
    source.close()


def test_a_link_that_expired_is_renewed(hub: Hub, hub_source: Source) -> None:
    [file] = hub_source.resolve().files
    hub.journal.clear()
    assert drain(hub_source, file, 0, 1000) == WEIGHTS[:1000]
    assert drain(hub_source, file, 1000, 1000) == WEIGHTS[1000:2000]
    assert len(hub.journal.requests(host="hub")) == 1
    hub.expire_links()
    assert drain(hub_source, file, 2000) == WEIGHTS[2000:]
    assert len(hub.journal.requests(host="hub")) == 2
    assert [seen.range for seen in hub.journal.requests(host="cdn")][2:] == [f"bytes=2000-{len(WEIGHTS) - 1}"] * 2


class ExpiringSource:
    """The hub's files; all links expire after the first request."""

    def __init__(self, hub: Hub, source: Source) -> None:
        self._hub, self._source, self._is_first = hub, source, True
        self.resolve, self.close = source.resolve, source.close

    def open(self, file: File, offset: int = 0, length: int | None = None) -> Body:
        """See `Source.open`."""
        if not self._is_first:
            self._hub.expire_links()
        self._is_first = False
        return self._source.open(file, offset, length)


def test_a_link_that_expires_during_a_download_is_renewed_without_repeating_bytes(
    hub: Hub, hub_source: Source, store: Store
) -> None:
    hub.faults.add(Truncate(2**20), times=1)
    result = fetch_blobs(ExpiringSource(hub, hub_source), store)
    assert store.blobs.path(result.blobs[NAME]).read_bytes() == WEIGHTS
    assert result.received_bytes == len(WEIGHTS)
    assert len(hub.journal.requests("*/resolve/*", host="hub")) >= 2
