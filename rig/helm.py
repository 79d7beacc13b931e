"""Helm, built from its Go module: renders and installs the charts in tests, on a control plane or a real node."""

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from rig.binaries import HELM, KUBERNETES_VERSION, cache_dir, locate
from rig.errors import HelmFailed, MissingBinaries
from shared.json_object import Json

_CHARTS = Path(__file__).parents[1] / "charts"
LARDER = _CHARTS / "larder"
LARDER_CRDS = _CHARTS / "larder-crds"
_TIMEOUT_S = 300.0
_KEPT = ("PATH", "HOME", "TMPDIR", "LANG")  # no KUBECONFIG, no HELM_*: a test must never reach the user's cluster


def find_helm(env: Mapping[str, str]) -> Path:
    """Return the helm of LARDER_HELM or the cache; raises MissingBinaries, which says how to get it."""
    if own := env.get("LARDER_HELM"):
        return Path(own)
    found = locate(HELM, env)
    if found is None:
        raise MissingBinaries(
            f"helm {HELM.version} not found in {cache_dir(env) / 'bin'}; "
            "run: make setup && .venv/bin/python -m rig setup (or set LARDER_HELM to a helm of your own)"
        )
    return found


@dataclass(frozen=True)
class Helm:
    """Runs helm, with its state below `home`; `kubeconfig` is for commands on a cluster."""

    program: Path
    home: Path
    kubeconfig: Path | None = None

    def run(self, *arguments: str, stdin: str = "") -> str:
        """Return the output of helm; raises HelmFailed with its error."""
        ran = subprocess.run(
            [self.program, *arguments], input=stdin, env=self._env(), text=True,
            capture_output=True, check=False, timeout=_TIMEOUT_S,
        )  # fmt: skip
        if ran.returncode:
            asked = " ".join(["helm", *arguments])
            raise HelmFailed(f"{asked} failed with exit code {ran.returncode}:\n{ran.stderr}{ran.stdout}")
        return ran.stdout

    def template(self, chart: Path, values: Mapping[str, Any], namespace: str, release: str = "larder") -> list[Json]:
        """Return the objects of a chart, rendered as for an empty cluster."""
        arguments = ["template", release, str(chart), "--namespace", namespace, "--values", "-"]
        printed = self.run(*arguments, "--kube-version", KUBERNETES_VERSION, stdin=json.dumps(dict(values)))
        return [found for found in yaml.load_all(printed, yaml.CSafeLoader) if found]

    def upgrade(self, chart: Path, values: Mapping[str, Any], namespace: str, release: str = "larder") -> str:
        """Install or upgrade a release, without waiting for its pods."""
        arguments = ["upgrade", "--install", release, str(chart), "--namespace", namespace, "--create-namespace"]
        return self.run(*arguments, "--values", "-", stdin=json.dumps(dict(values)))

    def _env(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        own = {f"HELM_{kind}_HOME": str(self.home / kind.lower()) for kind in ("CACHE", "CONFIG", "DATA")}
        return kept | own | {"GOGC": "off", "KUBECONFIG": str(self.kubeconfig or os.devnull)}
