"""An API server without resource.k8s.io/v1: driver, controller and `larder why` report it; everything else works."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rig.binaries import Binaries
from rig.control_plane import Options
from rig.larder.site import Site
from rig.processes import Process, Program
from shared.dra import DRIVER, RESOURCES
from tests.integration.system.conftest import Why
from tests.integration.system.sites import opened

WITHOUT = Options(apiserver_flags=("--runtime-config=resource.k8s.io/v1=false",), authorization="RBAC")
NODE = "a"
POD = {
    "resourceClaims": [{"name": "m", "resourceClaimTemplateName": "none"}],
    "containers": [{"name": "main", "image": "i", "resources": {"claims": [{"name": "m"}]}}],
}


@pytest.fixture(scope="module")
def site(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A cluster whose administrator set dra.enabled although the API is missing."""
    settings = {"LARDER_DRA": "true", "LARDER_DRAIN_SECONDS": "1", "LARDER_LEASE_SECONDS": "4"}
    state = tmp_path_factory.mktemp("site")
    with opened(binaries, state, settings, {NODE: {"gpu": "yes"}}, replicas=1, plane_options=WITHOUT) as site:
        assert not site.api.answers(RESOURCES)
        yield site


@pytest.fixture
def driver(site: Site, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Process, Path]]:
    """A driver on the node, and the file that its probes read."""
    kubelet = tmp_path_factory.mktemp("k")
    options = {
        "--node-name": NODE, "--root": site.store(NODE), "--kubeconfig": site.cluster.plane.kubeconfig,
        "--kubelet": kubelet, "--cdi": tmp_path / "cdi",
    }  # fmt: skip
    words = [str(word) for pair in options.items() for word in pair]
    process = Process(Program("larder dra", [sys.executable, "-m", "shared.cli", "dra", *words], {}), tmp_path / "log")
    yield process, kubelet / "plugins" / DRIVER / "status"
    process.stop()


def test_the_controller_logs_the_missing_kind_once_and_still_serves_models(site: Site) -> None:
    model = site.base_model(nodeSelector={"gpu": "yes"})
    site.wait_ready("ClusterBaseModel", model)
    (controller,) = site.cluster.controllers
    said = [line for line in controller.log.read_text().splitlines() if '"kind_not_served"' in line]
    assert len(said) == 1
    assert "/apis/resource.k8s.io/v1/resourceclaims" in said[0]
    site.delete("ClusterBaseModel", model)
    site.until(lambda: site.is_gone("ClusterBaseModel", model), "the model to go, which no claim can hold")
    site.until(lambda: site.entries(NODE, model) == [], "its files to be gone")


def test_the_driver_waits_and_reports_that_the_api_is_not_served(site: Site, driver: tuple[Process, Path]) -> None:
    process, status = driver
    site.until(lambda: status.exists() and "does not serve resource.k8s.io/v1" in status.read_text(), "the reason")

    def is_told() -> bool:
        events = site.api.get("/api/v1/namespaces/default/events")["items"]
        return any(e["reason"] == "ModelDevicesNotPublished" and "1.34 or newer" in e["message"] for e in events)

    site.until(is_told, "the Event on the Node")
    assert process.exit_code is None
    assert not (status.parents[2] / "plugins_registry" / f"{DRIVER}-reg.sock").exists()


def test_larder_why_reports_the_missing_api_for_a_pod_that_claims_a_model(site: Site, why: Why) -> None:
    name = site.name("pod")
    site.pod({"metadata": {"name": name}, "spec": POD})
    assert "! claims: DevicesNotServed: the API server does not serve resource.k8s.io/v1" in why(f"pod/{name}")
    site.delete_pod(name)
