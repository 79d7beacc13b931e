"""Shortage of space: what the agent reports, and what it drops itself if the node allows eviction."""

import random

import msgspec
import pytest

from rig.hub.faults import Stall
from shared.api.model_cache_node_group import LEAST_RECENTLY_USED, NEVER
from tests.integration.agent.node_under_test import Bench, Model

SIZE = 4_000_000
HALF = SIZE // 2
LIMIT = 5_000_000
OVERHEAD = 128 * 1024


def bytes_of(seed: int, size: int = SIZE) -> dict[str, bytes]:
    return {"model.bin": random.Random(seed).randbytes(size)}


def half_there(bench: Bench) -> bool:
    """Return whether a large part of an unfinished file is on the disk."""
    return bench.unfinished_bytes() >= HALF // 2


@pytest.fixture
def abandoned_model(bench: Bench) -> Model:
    """A model that was half downloaded when its entry disappeared."""
    model = bench.add_model("given-up", bytes_of(1))
    bench.hub.faults.add(Stall(HALF))
    bench.want(model.entry, storage_limit=LIMIT)
    bench.start()
    bench.wait_for(lambda: half_there(bench), "half of the file")
    bench.want(storage_limit=LIMIT)
    bench.wait_for(lambda: bench.count("download_stopped") == 1, "the download to end")
    bench.hub.faults.clear()
    return model


def test_unreferenced_files_are_removed_if_the_node_allows_eviction(bench: Bench, abandoned_model: Model) -> None:
    model = bench.add_model("llama", bytes_of(2))
    bench.want(model.entry, storage_limit=LIMIT)
    bench.wait_phase(model, "Failed", "InsufficientStorage")
    assert half_there(bench)
    bench.want(model.entry, storage_limit=LIMIT, eviction_policy=LEAST_RECENTLY_USED)
    bench.wait_phase(model, "Ready")
    assert list((bench.root / "partial").iterdir()) == []
    assert abandoned_model.entry.key not in {s.key for s in bench.model_node().status.entries}


def test_a_wanted_model_keeps_its_unfinished_files(bench: Bench, abandoned_model: Model) -> None:
    model = bench.add_model("llama", bytes_of(2))
    waiting = msgspec.structs.replace(abandoned_model.entry, granted=False)
    bench.want(waiting, model.entry, storage_limit=LIMIT, eviction_policy=LEAST_RECENTLY_USED)
    bench.wait_phase(model, "Failed", "InsufficientStorage")
    assert half_there(bench)
    bench.want(abandoned_model.entry, storage_limit=LIMIT, eviction_policy=LEAST_RECENTLY_USED)
    bench.wait_phase(abandoned_model, "Ready")


@pytest.mark.parametrize("policy", [NEVER, LEAST_RECENTLY_USED])
def test_the_status_states_the_shortage_of_each_model_and_the_bytes_that_its_removal_frees(
    bench: Bench, policy: str
) -> None:
    first = bench.add_model("first", bytes_of(1) | {"shared.bin": b"x" * 1000})
    second = bench.add_model("second", bytes_of(2) | {"shared.bin": b"x" * 1000})
    too_large = bench.add_model("too-large", bytes_of(3, LIMIT + 1))
    bench.want(first.entry, storage_limit=LIMIT, eviction_policy=policy)
    bench.start()
    bench.wait_phase(first, "Ready")
    bench.want(first.entry, second.entry, too_large.entry, storage_limit=LIMIT, eviction_policy=policy)
    bench.wait_phase(second, "Failed", "InsufficientStorage")
    bench.wait_phase(too_large, "Failed", "InsufficientStorage")
    held = first.manifest.size_bytes
    reported = {"first": (held, 0), "second": (0, held + second.manifest.size_bytes - LIMIT), "too-large": (0, 0)}

    def is_reported() -> bool:
        """Return whether all bytes are reported, apart from directories, marks and partial blocks."""
        found = {s.id: (s.frees, s.shortage) for s in bench.model_node().status.entries}
        pairs = [(size, least) for key in reported for size, least in zip(found[key], reported[key], strict=True)]
        return all(least <= size <= least + (OVERHEAD if least else 0) for size, least in pairs)

    bench.wait_for(is_reported, f"what each frees and lacks to be {reported}")
