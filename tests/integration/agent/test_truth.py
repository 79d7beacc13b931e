"""Changes to the disk that the agent does not make itself, and how soon it notices them."""

import hashlib
import random
import re
from collections.abc import Iterator

import pytest

from agent.store.floor import lies_on_root_disk
from shared.api.meta import Condition
from tests.builders.disks import tmpfs
from tests.integration.agent.node_under_test import Bench, Model
from tests.integration.store.rot import flip_a_bit
from tests.readers.directories import du_bytes
from tests.readers.metrics import scrape

WEIGHTS = random.Random(5).randbytes(6_000_000)
FILES = {"config.json": b'{"a": 1}', "model.safetensors": WEIGHTS}
LARGE = f"*{hashlib.sha256(WEIGHTS).hexdigest()}"
NEVER_S = "86400"


def ready(bench: Bench, *options: str) -> Model:
    """Return a model that an agent holds, which was started with these options."""
    model = bench.add_model("llama", FILES)
    bench.want(model.entry)
    bench.start(*options)
    bench.wait_phase(model, "Ready")
    return model


@pytest.fixture
def small_disk(bench: Bench) -> Iterator[Bench]:
    """A bench whose agent has a disk of 40 MiB; it takes the right to mount."""
    with tmpfs(bench.root, "40m"):
        yield bench
        for agent in bench.agents:
            agent.kill()


def condition_of(bench: Bench) -> Condition | None:
    """Return the condition of the ModelNode about the disk of its store."""
    conditions = bench.model_node().status.conditions
    return next((c for c in conditions if c.type == "StoreOnRootDisk"), None)


def test_a_flipped_bit_is_found_by_the_scrub_and_only_its_file_is_fetched_again(bench: Bench) -> None:
    model = ready(bench, "--scrub-rate", "1000000000", "--scrub-pause-seconds", "0.2")
    bench.hub.journal.clear()
    flip_a_bit(bench.snapshot(model) / "model.safetensors")
    bench.wait_for(lambda: bench.count("file_damaged_at_rest") == 1, "the scrub to find it")
    bench.wait_for(lambda: bench.count("snapshot_complete") == 2, "the repair")
    bench.wait_phase(model, "Ready")
    assert bench.is_complete(model)
    assert bench.hub.journal.requests(LARGE, method="GET")
    assert not bench.hub.journal.requests("*config.json", method="GET")
    bench.wait_for(
        lambda: scrape(bench.url)["larder_scrubbed_bytes_total"] > len(WEIGHTS), "the scrub to read the other file"
    )
    found = scrape(bench.url)
    assert found["larder_scrub_damaged_files_total"] == 1
    assert found["larder_scrub_last_pass_timestamp_seconds"] > 0


def test_the_kernel_reports_damage_before_the_next_scan(bench: Bench) -> None:
    model = ready(bench, "--scan-seconds", NEVER_S, "--scrub-rate", "0")
    bench.damage(model, "model.safetensors").write_bytes(b"short")
    bench.wait_for(lambda: bench.count("snapshot_complete") == 2, "the repair")
    assert bench.is_complete(model)
    bench.damage(model, "config.json").unlink()
    bench.wait_for(lambda: bench.count("snapshot_complete") == 3, "the second repair")
    assert bench.is_complete(model)


def test_a_download_stops_when_others_fill_the_disk_and_continues_when_space_is_freed(small_disk: Bench) -> None:
    bench, floor_bytes = small_disk, 16 * 2**20
    model = bench.add_model("llama", FILES)
    bench.want(model.entry, bandwidth_limit=300_000)  # twenty seconds, in which the disk is checked
    bench.start("--floor", str(floor_bytes))
    bench.wait_for(lambda: any((bench.root / "partial").glob("*.part")), "the download to begin")
    others = bench.root / "others"
    others.write_bytes(bytes(26 * 2**20))
    status = bench.wait_phase(model, "Failed", "InsufficientStorage")
    assert "16.0 MiB" in status.message
    assert "free" in status.message
    assert scrape(bench.url)["larder_downloads_running"] == 0
    held = sum(p.stat().st_blocks * 512 for p in (bench.root / "partial").glob("*.part"))
    assert held > 0

    bench.hub.journal.clear()
    others.unlink()
    bench.wait_phase(model, "Ready")
    assert bench.is_complete(model)
    first, *_ = bench.hub.journal.requests(LARGE, method="GET", host="cdn")
    assert first.range is not None
    assert int(first.range.removeprefix("bytes=").split("-")[0]) > 0


def test_a_model_that_can_never_fit_is_reported_without_asking_the_source(bench: Bench) -> None:
    model = bench.add_model("llama", FILES)
    bench.hub.journal.clear()
    bench.want(model.entry, storage_limit=len(WEIGHTS))
    bench.start("--scrub-rate", "0")  # the scrub writes its position, a block that would count between the two figures
    status = bench.wait_phase(model, "Failed", "InsufficientStorage")
    assert f"limit {len(WEIGHTS)} bytes" in status.message
    assert "can never fit" in status.message
    assert bench.hub.journal.requests() == []
    assert list((bench.root / "partial").iterdir()) == []

    need = re.search(r"need (\d+) bytes", status.message)
    assert need is not None
    limit = du_bytes(bench.root) + int(need[1])  # an exact fit
    bench.want(model.entry, storage_limit=limit)
    bench.wait_phase(model, "Ready")
    assert du_bytes(bench.root) <= limit


def test_the_condition_states_whether_the_store_is_on_the_root_disk(bench: Bench) -> None:
    bench.want()
    bench.start("--floor", "auto")
    bench.wait_for(lambda: condition_of(bench) is not None, "the condition")
    reported = condition_of(bench)
    assert reported is not None
    assert (reported.type, reported.status) == ("StoreOnRootDisk", str(lies_on_root_disk(bench.root)))
    assert reported.last_transition_time
    assert bench.model_node().status.floor >= 2**30


def test_nothing_is_downloaded_to_a_root_disk_if_the_settings_refuse_it(bench: Bench) -> None:
    if not lies_on_root_disk(bench.state):
        pytest.skip("the directory for tests is not on the root disk")
    model = bench.add_model("llama", FILES)
    bench.hub.journal.clear()
    bench.want(model.entry)
    bench.start("--refuse-root-disk", "true")
    status = bench.wait_phase(model, "Failed", "StoreFailure")
    reported = condition_of(bench)
    assert "agent.refuseRootDisk" in status.message
    assert reported is not None
    assert reported.reason == "Refused"
    assert bench.hub.journal.requests() == []
