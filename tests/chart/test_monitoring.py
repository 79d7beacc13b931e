"""Alerts and the dashboard use existing metrics and labels, and every metric and alert is documented."""

import json
import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from prometheus_client.core import Metric

from agent.devices.metrics import DeviceCollector
from agent.devices.report import DeviceReport
from agent.dra.metrics import DraMetrics
from agent.reconciler.activity import DOWNLOAD, FAILED, Activity, DownloadResult
from agent.reconciler.state_cache import Space
from agent.server.app import AgentState
from agent.server.metrics import build_registry
from controller.admission.metrics import AdmissionMetrics
from controller.admission.server import OUTCOMES
from controller.extender.metrics import ExtenderMetrics
from controller.manager.metrics import Metrics
from controller.manager.state_metrics import StateMetrics
from controller.modeloperator.download_end import DownloadEnd
from controller.modeloperator.download_metrics import ModelDownloadMetrics
from controller.modeloperator.state_metrics import model_gauges
from controller.nodes.eviction_recorder import EvictionMetrics
from controller.trainingjobs.state_metrics import job_gauges
from rig.helm import LARDER
from shared.api.model_node import Phase
from shared.errors import FilesInUse, InsufficientStorage, RateLimited
from shared.json_object import Json
from shared.kube.objects import Key
from tests.builders.cluster import cache, controllers_of, fresh_cluster
from tests.builders.models_on_claims import model
from tests.builders.observations import entry, failure, observation
from tests.builders.training_jobs import training_job
from tests.chart.conftest import Render
from tests.chart.objects import only

ON = {"monitoring": {"monitors": True, "rules": True, "dashboard": True, "labels": {"release": "prometheus"}}}
LOG_EVENT = re.compile(r"\b[a-z]+(?:_[a-z]+)+\b")
METRIC = re.compile(r"\b(?:larder|process)_[a-z_]+\b")
OF_PROMETHEUS = {"namespace", "pod", "node", "job", "le"}
DOCUMENTED = re.compile(r"^\| `([a-z_]+)(?:\{([a-z, ]+)\})?` \|", re.MULTILINE)
ROOT = Path(__file__).parents[2]
OF_BOTH = ("process_", "larder_build_info", "larder_internal_errors")  # both programs have these
AGGREGATIONS = {"bottomk", "count", "max", "min", "sum", "topk"}
FUNCTIONS = AGGREGATIONS | {"absent", "histogram_quantile", "increase", "rate", "time", "vector"}
KEYWORDS = {"by", "on", "ignoring", "and", "or", "unless"}


@pytest.fixture(scope="module")
def families() -> list[Metric]:
    """Every metric of both programs, each with at least one sample."""
    found = [*_of_agent(), *_of_controller()]
    assert [family.name for family in found if not family.samples] == []
    return found


def _of_agent() -> Iterable[Metric]:
    full = entry("full")
    stuck = observation(full, failures={full.key: failure(full, 200.0, "InsufficientStorage")})
    activity, key = Activity(), ("m", "r1")
    activity.start(key, "hf://org/m", DOWNLOAD).traffic.count_retry(RateLimited("wait", 1))
    activity.end(key, DOWNLOAD, DownloadResult(FAILED, "Unreachable"))
    activity.failures["Unreachable"] += 1
    activity.internal_errors.note("Stop", KeyError("m"))
    state = AgentState("n1", lambda: stuck, lambda: Space(1, 2, 3, 4), activity, str, str, lambda: 0.0)
    devices = DeviceReport(1, ("models",), {"toy": "it broke"})
    driver = DraMetrics(lambda: 0, lambda: ()).registry.collect()
    return [*build_registry(state).collect(), *DeviceCollector(lambda: devices, {}).collect(), *driver]


def _of_controller() -> Iterable[Metric]:
    known, metrics = fresh_cluster(), Metrics()
    known.cluster_model_caches.upsert(cache("m", "gpus"))
    AdmissionMetrics(metrics.registry)
    EvictionMetrics(metrics.registry)
    ExtenderMetrics(metrics.registry).plugin_failed("toys")
    ModelDownloadMetrics(metrics.registry).count(Key("team", "llama"), DownloadEnd("j1", "hf"))
    gauges = [controller.gauges for controller in controllers_of(known, metrics.registry)]
    metrics.registry.register(StateMetrics(lambda: True, lambda: 0, gauges))
    metrics.reconcile_time.labels("nodes")
    metrics.reconciles.labels("nodes", "error")
    metrics.watch_restarts.labels(resource="nodes")
    metrics.internal_errors.note("NodeKey", KeyError("m"))
    metrics.request("/v1/credentials", 200)
    yield from metrics.registry.collect()
    yield from job_gauges([training_job()])
    yield from model_gauges([model()])


@pytest.fixture(scope="module")
def samples(families: list[Metric]) -> dict[str, set[str]]:
    """The labels of every sample in a scrape of both programs, by the name of the sample."""
    return {sample.name: set(sample.labels) for family in families for sample in family.samples}


def _alerts(render: Render) -> list[Json]:
    groups: list[Json] = only(render(ON), "PrometheusRule", "larder")["spec"]["groups"]
    return [rule for group in groups for rule in group["rules"]]


def _queries(render: Render) -> list[str]:
    dashboard = json.loads(only(render(ON), "ConfigMap", "larder-dashboard")["data"]["larder.json"])
    shown = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    return shown + [alert["expr"] for alert in _alerts(render)]


def test_every_queried_metric_exists(render: Render, samples: dict[str, set[str]]) -> None:
    asked = {name for query in _queries(render) for name in METRIC.findall(query)}
    assert len(asked) > 30
    assert asked <= samples.keys()


def test_every_metric_of_ours_is_in_a_panel_or_an_alert(render: Render, families: list[Metric]) -> None:
    asked = {name for query in _queries(render) for name in METRIC.findall(query)}
    ours = [family for family in families if family.name.startswith("larder_")]
    assert [f.name for f in ours if not asked & {sample.name for sample in f.samples}] == []


def test_metrics_follow_the_naming_conventions(families: list[Metric]) -> None:
    names = [family.name for family in families if not family.name.startswith(OF_BOTH)]
    assert len(names) == len(set(names))
    for family in families:
        assert family.documentation.endswith(".")
        assert not family.name.endswith(("_count", "_sum", "_bucket", "_total", "_ms", "_kb", "_mib"))
        assert family.type in {"counter", "gauge", "histogram"}


def test_every_metric_is_documented_with_its_labels(families: list[Metric]) -> None:
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    reported = {
        name: {label.strip() for label in labels.split(",") if label} for name, labels in DOCUMENTED.findall(page)
    }
    labels = {f.name: {name for sample in f.samples for name in sample.labels} - {"le"} for f in families}
    assert reported == {f"{f.name}_total" if f.type == "counter" else f.name: labels[f.name] for f in families}


def test_every_alert_is_documented(render: Render) -> None:
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(Larder\w+)` \|", page, re.MULTILINE)) == {a["alert"] for a in _alerts(render)}


def test_every_queried_label_and_label_value_exists(render: Render, samples: dict[str, set[str]]) -> None:
    for query in _queries(render):
        known = set().union(*(samples[name] for name in METRIC.findall(query))) | OF_PROMETHEUS
        grouped = {
            label.strip()
            for names in re.findall(r"\b(?:by|on|ignoring) \(([^)]*)\)", query)
            for label in names.split(",")
        }
        matched = set(re.findall(r"([a-z_]+)=~?\"", query))
        assert grouped | matched <= known, query
        assert set(re.findall(r'phase="(\w+)"', query)) <= set(Phase)
        assert set(re.findall(r'outcome="(\w+)"', query)) <= set(OUTCOMES)
        assert set(re.findall(r'reason="(\w+)"', query)) <= {InsufficientStorage.__name__, FilesInUse.__name__}


def test_queries_are_well_formed(render: Render) -> None:
    assert {query: flaw for query in _queries(render) if (flaw := _flaw(query))} == {}


@pytest.mark.parametrize(
    "query",
    ["sum(rate(larder_x_total[5m])", "sum(rte(larder_x_total[5m]))", "rate(larder_x_total)", "larder_x >", "larder_x)",
     'larder_x{phase="Ready"', 'larder_x{phase="Ready}', "larder_x{phase=Ready}"],
)  # fmt: skip
def test_malformed_queries_are_detected(query: str) -> None:
    assert _flaw(query)


def _flaw(query: str) -> str:
    """Return what is wrong with a query, or an empty string; it finds typos but is not a parser of PromQL."""
    plain, rest = re.sub(r'(?<==|~)"[^"]*"', "", query), ""
    if '"' in plain or re.search(r"[=~]\w", plain.replace("== ", "")):
        return "quotes"
    brackets = re.sub(r"[^][(){}]", "", plain)
    while brackets != rest:
        rest, brackets = brackets, re.sub(r"\(\)|\[\]|\{\}", "", brackets)
    if brackets:
        return f"brackets: {brackets}"
    unknown = set(re.findall(r"(\w+) ?\(", plain)) - FUNCTIONS - KEYWORDS
    if unknown:
        return f"functions: {unknown}"
    if re.search(r"\b(?:rate|increase)\(\w+(?:\{[^}]*\})?(?!\w|\{|\[\d+[smhd]\])", plain):
        return "a range is missing"
    return "" if re.search(r"[\w)}\]]$", plain) else "it does not end"


def test_every_alert_has_a_severity_a_summary_a_description_and_an_action(render: Render) -> None:
    names = [alert["alert"] for alert in _alerts(render)]
    assert len(names) == len(set(names)) > 5
    for alert in _alerts(render):
        assert alert["labels"]["severity"] in {"warning", "critical"}
        assert alert["annotations"].keys() == {"summary", "description", "action"}
        assert all(text.strip() for text in alert["annotations"].values())
        assert alert["for"]


def test_files_that_wait_for_pods_to_end_are_not_reported_as_damaged(render: Render) -> None:
    (damaged,) = (alert["expr"] for alert in _alerts(render) if alert["alert"] == "LarderModelsDamaged")
    in_use = 'larder_models_failing{reason="FilesInUse"}'
    assert f'larder_models{{phase="Repairing"}} - ignoring (phase, reason) {in_use} > 0' in damaged


def test_every_log_event_that_an_alert_names_exists(render: Render) -> None:
    actions = " ".join(rule["annotations"]["action"] for rule in _alerts(render))
    named = {word for word in LOG_EVENT.findall(actions) if not METRIC.fullmatch(word)}
    files = (file for part in ("agent", "controller", "shared") for file in (ROOT / part).rglob("*.py"))
    sources = "".join(file.read_text(encoding="utf-8") for file in files)
    assert "admission_failed" in named
    assert {event for event in named if f'"{event}"' not in sources} == set()


def test_monitors_select_the_services_and_pods_that_they_scrape(render: Render) -> None:
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


def test_the_dashboard_is_rendered_unchanged(render: Render) -> None:
    assert (
        only(render(ON), "ConfigMap", "larder-dashboard")["data"]["larder.json"]
        == Path(LARDER / "dashboards" / "larder.json").read_text()
    )
