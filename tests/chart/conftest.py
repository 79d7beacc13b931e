"""Helm, the rendered charts, and a control plane with the charts installed."""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from rig.api import Api
from rig.binaries import Binaries
from rig.control_plane import ControlPlane, Options
from rig.errors import MissingBinaries
from rig.helm import LARDER, LARDER_CRDS, Helm, find_helm
from rig.processes import wait_until
from shared.json_object import Json

NAMESPACE = "larder-system"
TEAMS = ("team-a", "team-b")
VALUES = {
    "credentialNamespaces": list(TEAMS),
    "dra": {"enabled": True, "allow": {"env": ["GPU_*"]}},
    "inferenceServices": {"enabled": True},
    "models": {"enabled": True},
    "trainingJobs": {"enabled": True},
    "volumeClaimTemplates": {"enabled": True},
    # no controller runs here: these tests check what the API server itself refuses
    "admission": {"failurePolicy": {"ephemeralContainers": "Ignore", "models": "Ignore"}},
}
Render = Callable[..., list[Json]]
_WITHIN_S = 60.0


@pytest.fixture(scope="session")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """Helm without a cluster; where it is missing the test fails and says what to run."""
    try:
        return Helm(find_helm(os.environ), tmp_path_factory.mktemp("helm"))
    except MissingBinaries as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture(scope="session")
def render(helm: Helm) -> Render:
    """Renders the chart larder with the given values; results are cached."""
    known: dict[str, list[Json]] = {}

    def rendered(values: Mapping[str, Any] | None = None, namespace: str = NAMESPACE) -> list[Json]:
        key = repr((values, namespace))
        if key not in known:
            known[key] = helm.template(LARDER, values or {}, namespace)
        return known[key]

    return rendered


@pytest.fixture(scope="package")
def plane(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A separate control plane, because the cluster-wide objects of the charts would affect other tests."""
    options = Options(apiserver_flags=["--allow-privileged=true"])  # as in real clusters
    with ControlPlane(binaries, tmp_path_factory.mktemp("plane"), options) as running:
        yield running


@pytest.fixture(scope="package")
def cluster(helm: Helm, plane: ControlPlane) -> Helm:
    """Helm on that control plane, with both charts installed as releases larder-crds and larder."""
    found = replace(helm, kubeconfig=plane.kubeconfig)
    for name in TEAMS:
        plane.api.ensure("/api/v1/namespaces", {"metadata": {"name": name}})
    found.upgrade(LARDER_CRDS, {}, NAMESPACE, "larder-crds")
    wait_until(lambda: plane.api.answers("/apis/larder.dev/v1alpha1/modelnodes"), _WITHIN_S, "ModelNodes to be served")
    found.upgrade(LARDER, VALUES, NAMESPACE)
    return found


@pytest.fixture(scope="package")
def api(plane: ControlPlane, cluster: Helm) -> Api:
    """A client with all rights on a cluster with both charts."""
    assert cluster.kubeconfig == plane.kubeconfig
    return plane.api
