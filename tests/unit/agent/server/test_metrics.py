"""The metrics of an agent, from an observation and from its downloads."""

import pytest
from prometheus_client import generate_latest

from agent.reconciler.activity import COMPLETE, DOWNLOAD, FAILED, REPAIR, STOPPED, Activity, DownloadResult
from agent.reconciler.observation import Downloading, Observation, Reserved
from agent.reconciler.state_cache import Space
from agent.server.app import AgentState
from agent.server.metrics import build_registry
from agent.transfer.traffic import Traffic
from shared.errors import DigestMismatch, RateLimited, Unreachable
from tests.builders.observations import DAMAGED, DIGEST, SOUND, both, entry, failure, observation
from tests.readers.metrics import samples

KEY = ("coming", "r1")


def shown(activity: Activity, known: Observation | None = None, rate_limit: float = 0.0) -> dict[str, float]:
    """Every sample of a scrape."""
    seen = known or observation()
    report = AgentState("n1", lambda: seen, lambda: Space(1, 2, 3, 4), activity, str, str, lambda: rate_limit)
    return samples(generate_latest(build_registry(report)).decode())


def test_received_bytes_are_counted_by_source_while_a_download_runs() -> None:
    activity = Activity()
    progress = activity.start(KEY, "s3://bucket/coming", DOWNLOAD)
    progress.count_received(4)
    found = shown(activity)
    assert found['larder_downloaded_bytes_total{source="s3"}'] == 4
    assert found['larder_downloaded_bytes_total{source="hf"}'] == 0
    progress.count_received(3)
    activity.end(KEY, DOWNLOAD, DownloadResult(COMPLETE))
    assert shown(activity)['larder_downloaded_bytes_total{source="s3"}'] == 7


def test_an_unknown_source_scheme_adds_no_label() -> None:
    activity = Activity()
    activity.start(KEY, "https-but-not-quite", DOWNLOAD).count_received(4)
    assert not [name for name in shown(activity) if "quite" in name]


def test_downloads_are_counted_by_kind_result_and_reason() -> None:
    activity = Activity()
    assert shown(activity)['larder_downloads_ended_total{kind="repair",reason="",result="complete"}'] == 0
    for kind, ending in (
        (DOWNLOAD, DownloadResult(FAILED, "Unreachable")),
        (DOWNLOAD, DownloadResult(COMPLETE)),
        (REPAIR, DownloadResult(STOPPED)),
    ):
        activity.start(KEY, "hf://org/coming", kind)
        activity.end(KEY, kind, ending)
    found = shown(activity)
    assert found['larder_downloads_started_total{kind="download"}'] == 2
    assert found['larder_downloads_ended_total{kind="download",reason="Unreachable",result="failed"}'] == 1
    assert found['larder_downloads_ended_total{kind="download",reason="",result="complete"}'] == 1
    assert found['larder_downloads_ended_total{kind="repair",reason="",result="stopped"}'] == 1
    assert found["larder_downloads_running"] == 0


def test_gauges_reflect_the_current_observation() -> None:
    waits, fetches, full = entry("waits"), entry("fetches"), entry("full")
    seen = observation(
        entry("ready"), waits, fetches, full, entry("damaged"),
        held={("ready", "r1"): SOUND, ("damaged", "r1"): DAMAGED}, labels=both("ready"),
        works={waits.key: Reserved(DIGEST), fetches.key: Downloading(DIGEST)},
        failures={full.key: failure(full, 200.0, "InsufficientStorage")},
    )  # fmt: skip
    found = shown(Activity(), seen, rate_limit=1000.0)
    assert found["larder_downloads_queued"] == 1
    assert found["larder_store_reservations"] == 2
    assert found['larder_models_failing{reason="InsufficientStorage"}'] == 1
    assert found['larder_models_failing{reason="FilesDamaged"}'] == 1
    assert found['larder_models{phase="Ready"}'] == 1
    assert found['larder_models{phase="Absent"}'] == 0
    assert found["larder_download_rate_limit_bytes_per_second"] == 1000
    assert found["larder_store_limit_bytes"] == 3


def test_the_rate_is_the_sum_over_running_downloads() -> None:
    activity = Activity()
    for name in ("a", "b"):
        activity.start((name, "r1"), f"hf://org/{name}", DOWNLOAD).count_received(1_000_000)
    assert shown(activity)["larder_download_rate_bytes_per_second"] > 0


@pytest.mark.parametrize(("error", "limited"), [(RateLimited("wait", 1), 1), (Unreachable("gone"), 0)])
def test_only_an_answer_that_asks_to_wait_counts_as_rate_limited(
    error: RateLimited | Unreachable, limited: int
) -> None:
    traffic = Traffic()
    traffic.count_if_rate_limited(error)
    assert traffic.rate_limited == limited


def test_verification_and_retries_are_counted_by_source() -> None:
    activity = Activity()
    traffic = activity.start(KEY, "https://models.example/x.gguf", DOWNLOAD).traffic
    traffic.count_mismatch()
    traffic.count_retry(DigestMismatch("other bytes"))
    traffic.count_verified(10, 0.5)
    found = shown(activity)
    assert found['larder_verification_failures_total{source="https"}'] == 1
    assert found['larder_file_retries_total{reason="DigestMismatch",source="https"}'] == 1
    assert found['larder_verified_files_total{source="https"}'] == 1
    assert found['larder_verified_bytes_total{source="https"}'] == 10
    assert found['larder_verification_seconds_total{source="https"}'] == 0.5
