"""After an error in the agent's own code, one model lacks its metadata, and the error is counted."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from agent.reconciler.metadata_reader import SnapshotMetadataReader
from agent.reconciler.state_cache import StateCache
from agent.store.snapshot import Snapshot
from shared.api.unpacked_metadata import reading_of
from shared.internal_errors import InternalErrors
from shared.metadata.reading.attempts import identity_of_files
from tests.builders.observations import DIGEST, entry

KILLED = ("/bin/sh", "-c", "kill -9 $$")


def broken_clock() -> float:
    raise RuntimeError("no time")


async def read(cache: StateCache, errors: InternalErrors) -> None:
    woken = asyncio.Event()
    with ThreadPoolExecutor(1) as threads:
        async with asyncio.TaskGroup() as jobs:
            SnapshotMetadataReader(cache, threads, jobs, errors, woken.set, broken_clock, KILLED).start(entry())
    assert woken.is_set()


def test_an_error_while_recording_metadata_is_reported_and_does_not_end_the_agent(tmp_path: Path) -> None:
    snapshot = Snapshot("llama", "r1", "https://h/m.tar", tmp_path, DIGEST, (), 0)
    cache, errors = StateCache(held={entry().key: snapshot}), InternalErrors()
    asyncio.run(read(cache, errors))
    known = cache.metadata[entry().key]
    assert (known.identity, known.reason) == (identity_of_files(DIGEST), "MetadataFailed")
    assert known.message == "RuntimeError; the agent's log has more"
    assert reading_of(known).reason == "MetadataFailed"
    assert (cache.reading_metadata, cache.metadata_due) == (None, {})
    assert errors.counts == {"metadata": 1}
