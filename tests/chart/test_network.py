"""Traffic that the network policies allow."""

import pytest

from shared.json_object import Json
from tests.chart.conftest import NAMESPACE, Render
from tests.chart.everything import EVERYTHING
from tests.chart.objects import only, pod_specs

PROGRAMS = ("controller", "agent", "test")


def _policy(rendered: list[Json], program: str) -> Json:
    found = only(rendered, "NetworkPolicy", f"larder-{program}")["spec"]
    assert found["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == program
    assert found["policyTypes"] == ["Ingress", "Egress"]
    return dict(found)


@pytest.mark.parametrize("values", [{}, EVERYTHING], ids=["defaults", "everything"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_exactly_the_ports_that_a_program_serves_are_open(values: Json, program: str, render: Render) -> None:
    rendered = render(values)
    containers = pod_specs(rendered)[f"larder-{program}"]["containers"]
    served = {port["name"] for c in containers for port in c.get("ports", [])}
    assert {port["port"] for rule in _policy(rendered, program)["ingress"] for port in rule["ports"]} == served


@pytest.mark.parametrize("values", [{}, EVERYTHING], ids=["defaults", "everything"])
def test_admission_is_open_to_every_peer_because_the_api_server_is_not_a_pod(values: Json, render: Render) -> None:
    (rule,) = (r for r in _policy(render(values), "controller")["ingress"] if r["ports"][0]["port"] == "https")
    assert "from" not in rule


def test_metrics_ingress_can_be_limited_to_the_listed_peers_and_the_chart_test(render: Render) -> None:
    rendered = render(EVERYTHING)
    (health,) = (r for r in _policy(rendered, "controller")["ingress"] if r["ports"][0]["port"] == "health")
    test, *others = health["from"]
    assert test["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "test"
    assert others == EVERYTHING["networkPolicy"]["metricsFrom"]  # type: ignore[index]
    (served,) = _policy(rendered, "agent")["ingress"]
    assert served["from"] == others


@pytest.mark.parametrize("program", PROGRAMS)
def test_by_default_all_egress_is_allowed_even_in_a_namespace_that_denies_it(program: str, render: Render) -> None:
    assert _policy(render(), program)["egress"] == [{}]


@pytest.mark.parametrize("program", ["controller", "agent"])
def test_dns_and_the_controller_are_added_to_the_egress_rules_of_the_values(program: str, render: Render) -> None:
    rendered = render(EVERYTHING)
    names, controller, *asked = _policy(rendered, program)["egress"]
    assert {(p["port"], p["protocol"]) for p in names["ports"]} == {(53, "UDP"), (53, "TCP")}
    selector = only(rendered, "Deployment", "larder-controller")["spec"]["selector"]
    assert controller == {"ports": [{"port": "https", "protocol": "TCP"}], "to": [{"podSelector": selector}]}
    assert asked == EVERYTHING["networkPolicy"]["egress"]  # type: ignore[index]


def test_network_policies_are_created_in_the_release_namespace(render: Render) -> None:
    found = [o["metadata"]["namespace"] for o in render() if o["kind"] == "NetworkPolicy"]
    assert found == [NAMESPACE] * len(PROGRAMS)
