"""The metrics of waiting pods."""

from datetime import UTC, datetime

from controller.placement.pod_placement import Placement
from controller.waiting_pods.keys import WaitingKey
from controller.waiting_pods.state_metrics import WaitingPodsMetrics
from controller.waiting_pods.view import MissingFiles, WaitingPod, WaitingView
from tests.builders.cluster import pod

NOW = datetime(2026, 1, 1, 0, 10, tzinfo=UTC)


def view(model: str, *pods: WaitingPod) -> WaitingView:
    return WaitingView(WaitingKey("ns", model, "r1"), pods, on_some_node=True)


def waiting(name: str, placement: Placement, minute: int) -> WaitingPod:
    created = f"2026-01-01T00:{minute:02}:00Z"
    gated = placement == "gated"
    missing = None if gated else MissingFiles("a")
    return WaitingPod(pod(name, "", uid=name, creation_timestamp=created), placement, gated, missing=missing)


def shown(metrics: WaitingPodsMetrics) -> dict[tuple[str, str], float]:
    samples = (sample for metric in metrics.gauges() for sample in metric.samples)
    return {(sample.name, sample.labels["placement"]): sample.value for sample in samples}


def test_waiting_pods_are_counted_once_with_the_age_of_the_oldest() -> None:
    metrics = WaitingPodsMetrics(lambda: NOW)
    metrics.note(view("m", waiting("p", "gated", 0), waiting("q", "gated", 4), waiting("r", "preferred", 9)))
    metrics.note(view("n", waiting("p", "gated", 0)))
    assert shown(metrics) == {
        ("larder_waiting_pods", "required"): 0,
        ("larder_waiting_pods", "preferred"): 1,
        ("larder_waiting_pods", "gated"): 2,
        ("larder_waiting_pods_oldest_seconds", "required"): 0,
        ("larder_waiting_pods_oldest_seconds", "preferred"): 60,
        ("larder_waiting_pods_oldest_seconds", "gated"): 600,
    }


def test_pods_that_no_longer_wait_are_forgotten() -> None:
    metrics = WaitingPodsMetrics(lambda: NOW)
    metrics.note(view("m", waiting("p", "gated", 0)))
    metrics.note(view("m"))
    assert not any(shown(metrics).values())
    metrics.note(view("m", waiting("p", "gated", 0)))
    metrics.clear()
    assert not any(shown(metrics).values())
