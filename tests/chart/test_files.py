"""The file selection, from the chart's values to the controller's settings."""

from typing import Any

import pytest

from controller.settings import ControllerSettings
from rig.errors import HelmFailed
from shared.selection.choice import WHOLE, make_selection
from tests.chart.conftest import Render
from tests.chart.objects import environment, pod_specs

NAMES = ("LARDER_ALLOW_PATTERNS", "LARDER_IGNORE_PATTERNS", "LARDER_ALLOW_PICKLE", "LARDER_DUPLICATE_WEIGHTS")


def settings(render: Render, values: dict[str, object] | None = None) -> ControllerSettings:
    (container,) = pod_specs(render(values))["larder-controller"]["containers"]
    reported = environment({**container, "env": [e for e in container["env"] if e["name"] in NAMES and e.get("value")]})
    return ControllerSettings.model_validate(
        {name.removeprefix("LARDER_").lower(): value for name, value in reported.items()}
    )


def test_by_default_every_file_is_fetched(render: Render) -> None:
    assert settings(render).files == WHOLE == ControllerSettings().files


def test_file_values_of_the_chart_become_the_controllers_selection(render: Render) -> None:
    files = {
        "allowPatterns": ["*.safetensors", "dir with a blank/", "[ab].json"],
        "ignorePatterns": ["original/"],
        "allowPickle": False,
        "duplicateWeights": "skip",
    }
    wanted = make_selection(["*.safetensors", "dir with a blank/", "[ab].json"], ["original/"], "skip", pickle=False)
    assert settings(render, {"files": files}).files == wanted


@pytest.mark.parametrize(
    "files", [{"allowPatterns": ["a,b"]}, {"allowPatterns": [" "]}, {"allowPickle": "no"}, {"duplicateWeights": "drop"}]
)
def test_invalid_values_are_refused_before_they_are_installed(files: dict[str, Any], render: Render) -> None:
    with pytest.raises(HelmFailed, match="files"):
        render({"files": files})


def test_without_file_values_the_controller_gets_no_file_settings(render: Render) -> None:
    (container,) = pod_specs(render({"files": None}))["larder-controller"]["containers"]
    assert not {e["name"] for e in container["env"]} & set(NAMES)
