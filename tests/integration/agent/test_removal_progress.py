"""What a slow removal reports while it runs."""

import os
import random

import msgspec
import pytest

from shared.api.model_node import EntryState
from shared.api.wire import EntryProgress
from shared.quantity import format_bytes
from tests.integration.agent.node_under_test import Bench
from tests.readers.metrics import scrape

ONE = 1_000_000
FILES = {f"part-{number}.safetensors": random.Random(number).randbytes(ONE) for number in range(3)}
TOTAL = ONE * len(FILES)


@pytest.fixture
def holding(bench: Bench) -> Bench:
    """A bench whose agents pause before the second blob that they remove."""
    pipe = bench.state / "pipe"
    os.mkfifo(pipe)
    bench.module, bench.environ = "tests.integration.agent.held_removal", {"LARDER_TEST_PIPE": str(pipe)}
    return bench


def test_a_running_removal_is_reported_in_metrics_progress_and_status(holding: Bench) -> None:
    bench, model = holding, holding.add_model("llama", FILES)
    bench.want(model.entry)
    bench.start()
    bench.wait_phase(model, "Ready")
    bench.controller.progress.clear()
    bench.want(msgspec.structs.replace(model.entry, state=EntryState.ABSENT))

    bench.wait_for(lambda: scrape(bench.url)["larder_removed_bytes_total"] == ONE, "the first file to be counted")
    in_the_middle = EntryProgress(*model.entry.key, ONE, TOTAL)

    def reported() -> list[EntryProgress]:
        return [entry for report in list(bench.controller.progress) for entry in report.entries]

    bench.wait_for(lambda: in_the_middle in reported(), "the controller to be reported how far it is")
    phrase = f"{format_bytes(ONE)} of at most {format_bytes(TOTAL)} are gone"

    def says() -> bool:
        status = bench.status(model.entry)
        return status is not None and (status.phase, status.message) == ("Draining", phrase)

    bench.wait_for(says, "the ModelNode to report the progress")
    assert scrape(bench.url)["larder_snapshots_removed_total"] == 0
    assert not bench.snapshot(model).exists()
    assert bench.labels() == set()
    assert bench.is_ready()

    (bench.state / "pipe").write_bytes(b"")
    bench.wait_phase(model, "Absent")
    found = scrape(bench.url)
    assert found["larder_removed_bytes_total"] == TOTAL
    assert found["larder_snapshots_removed_total"] == 1
    assert list((bench.root / "blobs" / "sha256").iterdir()) == []
    assert all(entry.total == TOTAL and entry.done <= TOTAL for entry in reported())
