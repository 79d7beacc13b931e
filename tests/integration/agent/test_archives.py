"""A model that is one archive, from its entry to its labels."""

import hashlib
import random
import re

import msgspec

from rig.hub.faults import Refuse
from tests.builders.archives import tar, tar_gz, zipped
from tests.integration.agent.node_under_test import Bench, Model
from tests.readers.metrics import scrape

WEIGHTS = random.Random(3).randbytes(2_000_000)
FILES = {"m/config.json": b'{"a": 1}', "m/model.safetensors": WEIGHTS}
UNPACKED_BYTES = sum(map(len, FILES.values()))


def add(bench: Bench, name: str, body: bytes, **fields: object) -> Model:
    """Add a model with an archive on the hub; its files are those that the node should have."""
    model = bench.add_model("llama", {name: body}, **fields)
    return Model(model.entry, model.manifest, FILES)


def stored(bench: Bench) -> set[str]:
    return {path.name for path in (bench.root / "blobs" / "sha256").iterdir()}


def test_a_packed_model_becomes_ready_and_can_be_repaired_adopted_and_removed(bench: Bench) -> None:
    model = add(bench, "m.tar.gz", tar_gz(FILES))
    bench.want(model.entry)
    agent = bench.start()
    status = bench.wait_phase(model, "Ready")
    assert bench.is_complete(model)
    assert bench.has_labels(model)
    assert not (bench.snapshot(model) / "m.tar.gz").exists()
    assert stored(bench) == {hashlib.sha256(body).hexdigest() for body in FILES.values()}
    assert status.verified == "digest"

    bench.hub.journal.clear()
    bench.damage(model, "m/model.safetensors").write_bytes(b"short")
    bench.wait_for(lambda: bench.count("snapshot_complete") == 2, "the repair")
    bench.wait_phase(model, "Ready")
    assert bench.is_complete(model)
    assert bench.hub.journal.requests("*m.tar.gz", method="GET")

    agent.kill()
    bench.hub.faults.add(Refuse(503))
    bench.start()
    bench.wait_phase(model, "Ready")
    assert bench.has_labels(model)
    assert bench.count("download_started") == 1

    bench.want(msgspec.structs.replace(model.entry, state="Absent"))
    bench.wait_phase(model, "Absent")
    assert stored(bench) == set()


OVERHEAD_BYTES = 128 * 1024  # more than directories, marks and ends of blocks take here


def _need_bytes(bench: Bench, model: Model) -> int:
    """Return the bytes that the model needs according to the message, or 0."""
    found = re.search(r"need (\d+) bytes", _message(bench, model))
    return int(found[1]) if found else 0


def test_an_archive_that_does_not_fit_unpacked_is_reported_once_and_fetched_when_it_fits(bench: Bench) -> None:
    body = zipped(FILES)
    model = add(bench, "m.zip", body)
    limit = len(body) + UNPACKED_BYTES
    bench.want(model.entry, storage_limit=limit - 1)
    bench.start()
    bench.wait_phase(model, "Failed", "InsufficientStorage")
    bench.wait_for(
        lambda: limit <= _need_bytes(bench, model) <= limit + OVERHEAD_BYTES, "the whole need in the message"
    )
    assert stored(bench) == set()
    bench.wait_for(lambda: _shortages(bench) >= 2, "the next attempt to be refused")
    assert bench.count("entry_failed") == 1, "the same shortage is reported only once"
    bench.hub.journal.clear()
    assert bench.count("download_started") == 1

    bench.want(model.entry, storage_limit=limit + OVERHEAD_BYTES)
    bench.wait_phase(model, "Ready")
    assert bench.is_complete(model)
    assert bench.count("download_started") == 2


def test_an_archive_with_an_unsafe_member_is_refused_with_the_reason(bench: Bench) -> None:
    model = add(bench, "m.tar", tar({**FILES, "../out": b"x"}))
    bench.want(model.entry)
    bench.start()
    status = bench.wait_phase(model, "Failed", "UnsafePath")
    assert "'../out'" in status.message
    assert bench.labels() == set()
    assert not bench.snapshot(model).exists()


def _shortages(bench: Bench) -> float:
    """Return how often the agent reported a lack of space."""
    return scrape(f"http://127.0.0.1:{bench.port}")['larder_entry_failures_total{reason="InsufficientStorage"}']


def _message(bench: Bench, model: Model) -> str:
    status = bench.status(model.entry)
    return status.message if status else ""
