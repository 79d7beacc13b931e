"""The metrics of Models."""

from datetime import timedelta

from prometheus_client import CollectorRegistry

import tests.builders.models_on_claims as build
from controller.modeloperator.actions import WriteModelStatus
from controller.modeloperator.decide import decide
from controller.modeloperator.download_end import DownloadEnd
from controller.modeloperator.download_metrics import ModelDownloadMetrics
from controller.modeloperator.state_metrics import model_gauges
from shared.api.model import ModelObjectStatus
from shared.download_report import DownloadReport
from shared.kube.objects import Key
from tests.builders.model_caches import pod

LLAMA = Key("team", "llama")
PREFIX = "larder_model_operator"


def test_models_are_counted_by_phase() -> None:
    (family,) = model_gauges([build.model(), build.model(ModelObjectStatus(phase="Ready"))])
    counts = {sample.labels["phase"]: sample.value for sample in family.samples}
    assert counts == {"Pending": 1, "Downloading": 0, "Ready": 1, "Failed": 0}


def test_each_download_job_is_counted_once() -> None:
    registry = CollectorRegistry()
    metrics = ModelDownloadMetrics(registry)
    for _ in range(2):
        metrics.count(LLAMA, DownloadEnd("j1", "hf", duration_s=30.0, downloaded_bytes=70, reused_bytes=30))
    metrics.count(LLAMA, DownloadEnd("j2", "hf", "AuthDenied"))
    metrics.count(LLAMA, DownloadEnd("j3", "hf", "MadeUpByATenant"))

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"{PREFIX}_{name}", {"source": "hf", **labels})

    ended = "downloads_ended_total"
    assert value(ended, result="complete", reason="") == 1
    assert value(ended, result="failed", reason="AuthDenied") == 1
    assert value(ended, result="failed", reason="Other") == 1
    assert value("download_duration_seconds_sum") == 30
    assert (value("downloaded_bytes_total"), value("reused_bytes_total")) == (70, 30)


def test_a_finished_download_records_its_outcome_and_bytes() -> None:
    done = pod("Succeeded", DownloadReport(revision="abc", downloaded_bytes=70, reused_bytes=30))
    view = build.view(claim=build.claim(), job=build.job("Complete"), pods=(done,))
    (write,) = (a for a in decide(view, build.NOW + timedelta(seconds=90)) if isinstance(a, WriteModelStatus))
    assert write.ended == DownloadEnd("j1", "hf", "", 90.0, 70, 30)
    failed = pod("Failed", DownloadReport(reason="AuthDenied", message="m"))
    view = build.view(claim=build.claim(), job=build.job("Failed"), pods=(failed,))
    (write,) = (a for a in decide(view, build.NOW) if isinstance(a, WriteModelStatus))
    assert write.ended == DownloadEnd("j1", "hf", "AuthDenied")
