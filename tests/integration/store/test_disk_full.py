"""A disk that is full before the model is complete. The file system is a real one of 6 MiB."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.store.store import Store
from shared.errors import InsufficientStorage
from shared.sources.memory import MemorySource


def test_a_full_disk_keeps_what_came_and_goes_on_when_there_is_room(
    small_disk: Path, bring: Callable[..., object]
) -> None:
    source = MemorySource({"large": os.urandom(4 * 2**20)})
    (small_disk / "others").write_bytes(b"x" * (4 * 2**20))
    store = Store.open(small_disk / "root")
    with pytest.raises(InsufficientStorage, match="No space left on device; free space"):
        bring(source, store)
    held = source.resolve().size_bytes - store.missing_bytes(source.resolve())
    assert held >= 2**20
    (small_disk / "others").unlink()
    before = source.served_bytes
    bring(source, store)
    assert source.served_bytes - before == source.resolve().size_bytes - held
    store.close()


def test_a_model_that_cannot_fit_on_the_disk_never_starts(small_disk: Path) -> None:
    store = Store.open(small_disk / "root")
    free = store.disk_free()
    with pytest.raises(InsufficientStorage, match="free space on the node's disk"):
        store.reserve("model", free + 1, 0, 0)
    with pytest.raises(InsufficientStorage, match="of which 1 bytes stay free"):
        store.reserve("model", free, 0, 1)
    store.reserve("model", free, 0, 0)
    store.close()
