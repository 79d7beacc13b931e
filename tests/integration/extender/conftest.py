"""Two replicas that serve the extender, and a real kube-scheduler that calls the first."""

import json
from collections.abc import Callable, Iterator, Mapping

import pytest

from rig.binaries import Binaries
from rig.control_plane import Options
from rig.held_link import HeldLink
from rig.larder.scheduler import LarderScheduler
from rig.larder.site import Site
from shared.devices.annotation import ANNOTATION
from tests.builders.devices import card
from tests.integration.system.sites import opened

AddNode = Callable[..., str]
_PATIENT_MS = 10_000  # on a busy machine, the scheduler would go on without an answer
_PLANE = Options(node_lost_after_s=60)  # pods avoid a node whose heartbeat a busy machine delays


@pytest.fixture(scope="package")
def link() -> Iterator[HeldLink]:
    """The connection of both replicas to the API server; kube-scheduler connects directly."""
    with HeldLink() as link:
        yield link


@pytest.fixture(scope="package")
def site(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory, link: HeldLink) -> Iterator[Site]:
    state = tmp_path_factory.mktemp("extender")
    settings = {"LARDER_SCHEDULER": "true", "LARDER_DRA_PLUGINS": "true", "LARDER_LEASE_SECONDS": "4"}
    with (
        opened(binaries, state, settings, {}, replicas=2, plane_options=_PLANE, link=link) as site,
        LarderScheduler(binaries, site.cluster.plane, site.cluster.controllers[0], state / "scheduler", _PATIENT_MS),
    ):
        yield site


@pytest.fixture
def add_node(site: Site) -> Iterator[AddNode]:
    """Add nodes with devices; they are removed after the test with its pods."""
    names = list[str]()

    def add(devices: Mapping[str, int] | None = None, annotation: str | None = None) -> str:
        name = site.name("node")
        site.cluster.add_node(name, agent=False)
        names.append(name)
        text = json.dumps({"name": name, "allocatable": dict({card("a"): 1} if devices is None else devices)})
        site.api.patch(f"/api/v1/nodes/{name}", {"metadata": {"annotations": {ANNOTATION: annotation or text}}})
        return name

    yield add
    pods = "/api/v1/namespaces/default/pods"
    for pod in site.api.get(pods)["items"]:
        site.api.delete(f"{pods}/{pod['metadata']['name']}", grace_s=0)
    for name in names:
        site.cluster.nodes.remove(name)
