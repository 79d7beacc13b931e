"""The version is the same everywhere, and the command knows it even if it is not installed."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from shared import __version__

ROOT = Path(__file__).parents[3]


def test_the_distribution_is_named_kube_larder_and_installs_the_larder_command() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["name"] == "kube-larder"
    assert project["scripts"]["larder"] == "shared.cli:main"


@pytest.mark.parametrize("program", ["agent", "controller"])
def test_the_dockerfiles_have_the_version(program: str) -> None:
    assert re.findall(r"^ARG VERSION=(.+)$", (ROOT / f"Dockerfile.{program}").read_text(), re.MULTILINE) == [
        __version__
    ]


@pytest.mark.parametrize("chart", ["larder", "larder-crds"])
def test_the_charts_have_the_version_as_app_version(chart: str) -> None:
    assert yaml.safe_load((ROOT / "charts" / chart / "Chart.yaml").read_text())["appVersion"] == __version__


def test_the_version_option_works_without_an_installed_distribution() -> None:
    argv = [sys.executable, "-S", "-m", "shared.cli", "--version"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603 - our own command
    assert (done.stdout, done.stderr) == (f"larder {__version__}\n", "")
