"""Alerts and the dashboard ask for metrics that the programs have, and for labels that those have."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from agent.figures import Figures
from agent.health import Report
from agent.meters import Meters
from agent.metrics import build_registry
from agent.stock.book import Space
from agent.stock.phases import statuses
from controller.metrics import Metrics
from rig.helm import LARDER, Json
from shared.api.model_node import Phase
from tests.chart.conftest import Render
from tests.chart.objects import only
from tests.unit.agent.worlds import world

ON = {"monitoring": {"monitors": True, "rules": True, "dashboard": True, "labels": {"release": "prometheus"}}}
METRIC = re.compile(r"\blarder_[a-z_]+\b")
OF_PROMETHEUS = {"namespace", "pod", "node", "job", "le"}


@pytest.fixture(scope="module")
def samples() -> dict[str, set[str]]:
    """The labels of every sample that a scrape of both programs brings, by its name."""
    empty = world()
    assert not list(statuses(empty))
    space, figures = Space(1, 2, 3, 4), Figures(5, 6)
    report = Report("n1", lambda: empty, lambda: space, Meters(), str, str, lambda: figures)
    metrics = Metrics()
    for labelled in (metrics.turns, metrics.failures):
        labelled.labels(kind="NodeKey")
    metrics.watch_troubles.labels(resource="nodes")
    return {name: labels for r in (build_registry(report), metrics.registry) for name, labels in _samples(r)}


def _samples(registry: CollectorRegistry) -> Iterator[tuple[str, set[str]]]:
    for family in registry.collect():
        for sample in family.samples:
            yield sample.name, set(sample.labels)


def _alerts(render: Render) -> list[Json]:
    (group,) = only(render(ON), "PrometheusRule", "larder")["spec"]["groups"]
    found: list[Json] = group["rules"]
    return found


def _queries(render: Render) -> list[str]:
    dashboard = json.loads(only(render(ON), "ConfigMap", "larder-dashboard")["data"]["larder.json"])
    shown = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    return shown + [alert["expr"] for alert in _alerts(render)]


def test_every_metric_that_is_asked_for_exists(render: Render, samples: dict[str, set[str]]) -> None:
    asked = {name for query in _queries(render) for name in METRIC.findall(query)}
    assert len(asked) > 10
    assert asked <= samples.keys()


def test_every_label_that_is_asked_for_exists(render: Render, samples: dict[str, set[str]]) -> None:
    for query in _queries(render):
        known = set().union(*(samples[name] for name in METRIC.findall(query))) | OF_PROMETHEUS
        grouped = {
            label.strip() for names in re.findall(r"\b(?:by|on) \(([^)]*)\)", query) for label in names.split(",")
        }
        matched = set(re.findall(r"([a-z_]+)=~?\"", query))
        assert grouped | matched <= known, query
        assert set(re.findall(r'phase="(\w+)"', query)) <= set(Phase)


def test_alerts_say_what_is_wrong_and_what_to_do(render: Render) -> None:
    names = [alert["alert"] for alert in _alerts(render)]
    assert len(names) == len(set(names)) > 5
    for alert in _alerts(render):
        assert alert["labels"]["severity"] in {"warning", "critical"}
        assert alert["annotations"].keys() == {"summary", "description"}
        assert alert["for"]


def test_monitors_find_what_they_scrape(render: Render) -> None:
    rendered = render(ON)
    monitor = only(rendered, "ServiceMonitor", "larder-controller")["spec"]
    service = only(rendered, "Service", "larder-metrics")
    assert monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert (
        not monitor["selector"]["matchLabels"].items()
        <= only(rendered, "Service", "larder")["metadata"]["labels"].items()
    )
    assert monitor["endpoints"][0]["port"] in {p["name"] for p in service["spec"]["ports"]}
    pods = only(rendered, "PodMonitor", "larder-agent")["spec"]
    template = only(rendered, "DaemonSet", "larder-agent")["spec"]["template"]
    assert pods["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    (container,) = template["spec"]["containers"]
    assert pods["podMetricsEndpoints"][0]["port"] in {p["name"] for p in container["ports"]}
    for kind, name in (("ServiceMonitor", "larder-controller"), ("PrometheusRule", "larder")):
        assert only(rendered, kind, name)["metadata"]["labels"]["release"] == "prometheus"


def test_the_dashboard_is_plain_json(render: Render) -> None:
    assert (
        only(render(ON), "ConfigMap", "larder-dashboard")["data"]["larder.json"]
        == Path(LARDER / "dashboards" / "larder.json").read_text()
    )
