"""Allowed sources of namespaced models, from the chart's value to the controller's setting."""

import pytest

from controller.placement.allowed_sources import PUBLIC_SOURCES, parse_allowed
from controller.settings import ControllerSettings
from rig.errors import HelmFailed
from tests.chart.conftest import Render
from tests.chart.objects import environment, pod_specs


def setting(render: Render, values: dict[str, object] | None = None) -> str | None:
    (container,) = pod_specs(render(values))["larder-controller"]["containers"]
    return environment(container | {"env": [e for e in container["env"] if e.get("value")]}).get(
        "LARDER_ALLOWED_SOURCES"
    )


def test_the_chart_and_the_program_have_the_same_default(render: Render) -> None:
    assert parse_allowed(setting(render) or "") == PUBLIC_SOURCES == ControllerSettings().allowed


def test_allowed_sources_from_the_values_replace_the_default_list(render: Render) -> None:
    values = ["hf://org", "https://*.example.org", "https://h:8443/p", "oci://r.example.org:5000/a", "*"]
    assert parse_allowed(setting(render, {"allowedSources": values}) or "").patterns == tuple(values)


@pytest.mark.parametrize(
    "wrong", ["hf:/org", "org/m", "hf://a,b", "hf://org/*", "https://a.b*.org", "https://*", "hf://o m"]
)
def test_an_invalid_pattern_is_refused_before_it_is_installed(wrong: str, render: Render) -> None:
    with pytest.raises(HelmFailed, match="allowedSources"):
        render({"allowedSources": [wrong]})
