"""Metrics of a running agent while it downloads, repairs and removes models."""

import hashlib
import random

import msgspec

from rig.control_plane import ControlPlane
from rig.hub.faults import Corrupt, Refuse, Stall
from shared.api.model_node import EntryState
from tests.integration.agent.node_under_test import Bench
from tests.readers.metrics import scrape

WEIGHTS = random.Random(1).randbytes(6_000_000)
FILES = {"config.json": b'{"a": 1}', "model.safetensors": WEIGHTS}
TOTAL = sum(map(len, FILES.values()))
HALF = 3_000_000
LARGE = f"*{hashlib.sha256(WEIGHTS).hexdigest()}"  # where the hub sends one for the large file
RECEIVED = 'larder_downloaded_bytes_total{source="hf"}'


def test_a_download_and_a_removal_are_counted(bench: Bench) -> None:
    model = bench.add_model("llama", FILES)
    bench.start()
    before = scrape(bench.url)
    assert before[RECEIVED] == before['larder_downloads_started_total{kind="download"}'] == 0
    bench.want(model.entry)
    bench.wait_phase(model, "Ready")
    after = scrape(bench.url)
    assert after[RECEIVED] == TOTAL
    assert after['larder_verified_files_total{source="hf"}'] == len(FILES)
    assert after['larder_verified_bytes_total{source="hf"}'] == TOTAL
    assert after['larder_verification_seconds_total{source="hf"}'] > 0
    assert after['larder_downloads_started_total{kind="download"}'] == 1
    assert after['larder_downloads_ended_total{kind="download",reason="",result="complete"}'] == 1
    assert after['larder_models{phase="Ready"}'] == 1
    assert after["process_cpu_seconds_total"] > 0

    bench.want(msgspec.structs.replace(model.entry, state=EntryState.DRAINING))
    bench.wait_phase(model, "Draining")
    bench.want(msgspec.structs.replace(model.entry, state=EntryState.ABSENT))
    bench.wait_phase(model, "Absent")
    assert scrape(bench.url)["larder_snapshots_removed_total"] == 1


def test_received_bytes_and_the_rate_limit_are_exported_while_a_download_runs(bench: Bench) -> None:
    model = bench.add_model("llama", FILES)
    bench.hub.faults.add(Stall(HALF), LARGE)
    bench.want(model.entry, bandwidth_limit=10**9)
    bench.start()
    bench.wait_for(lambda: HALF // 2 < scrape(bench.url)[RECEIVED] < TOTAL, "half of the file")
    found = scrape(bench.url)
    assert found["larder_downloads_running"] == found["larder_store_reservations"] == 1
    assert found["larder_download_rate_limit_bytes_per_second"] == 10**9
    bench.hub.faults.clear()
    bench.wait_phase(model, "Ready")


def test_rate_limited_requests_are_counted(bench: Bench) -> None:
    model = bench.add_model("llama", FILES)
    bench.hub.faults.add(Refuse(429, retry_after_s=0.1), LARGE, times=2)
    bench.want(model.entry)
    bench.start()
    bench.wait_phase(model, "Ready")
    found = scrape(bench.url)
    assert found['larder_source_rate_limited_total{source="hf"}'] == 2
    assert found['larder_file_retries_total{reason="RateLimited",source="hf"}'] == 2
    assert found['larder_source_rate_limited_total{source="s3"}'] == 0


def test_digest_mismatches_are_counted(bench: Bench) -> None:
    model = bench.add_model("llama", FILES)
    bench.hub.faults.add(Corrupt(HALF), LARGE)
    bench.want(model.entry)
    bench.start()
    bench.wait_phase(model, "Failed", "DigestMismatch")
    failing = 'larder_models_failing{reason="DigestMismatch"}'  # not while the bytes of the next attempt arrive
    bench.wait_for(lambda: scrape(bench.url).get(failing) == 1, "the failure to be shown")
    found = scrape(bench.url)
    assert found['larder_verification_failures_total{source="hf"}'] >= 2
    assert found['larder_downloads_ended_total{kind="download",reason="DigestMismatch",result="failed"}'] >= 1
    assert found['larder_entry_failures_total{reason="DigestMismatch"}'] >= 1


def test_a_repair_is_counted_separately_from_downloads(bench: Bench) -> None:
    model = bench.add_model("llama", FILES)
    bench.want(model.entry)
    bench.start()
    bench.wait_phase(model, "Ready")
    bench.drop_blobs()
    bench.damage(model, "model.safetensors").write_bytes(b"cut short")
    ended = 'larder_downloads_ended_total{kind="repair",reason="",result="complete"}'
    bench.wait_for(lambda: scrape(bench.url)[ended] == 1, "the repair")
    assert scrape(bench.url)["larder_snapshots_damaged_total"] == 1
    assert bench.is_complete(model)


def test_watch_restarts_are_counted(bench: Bench, agent_plane: ControlPlane) -> None:
    bench.want()
    bench.start()
    troubles = "larder_modelnode_watch_restarts_total"
    assert scrape(bench.url)[troubles] == 0
    agent_plane.restart_apiserver()
    bench.wait_for(lambda: scrape(bench.url)[troubles] > 0, "the watch to break")
