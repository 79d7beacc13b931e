"""One cluster with Larder on it for this folder: two GPU nodes in a group, one node outside, a hub, an S3 server."""

from collections.abc import Iterator

import pytest

from rig.binaries import Binaries
from rig.larder.site import Site
from tests.integration.system.sites import GPU, opened


@pytest.fixture(scope="package")
def site(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A control plane of its own: these tests install webhooks, kill controllers and lose nodes."""
    settings = {
        "LARDER_DRAIN_SECONDS": "1",
        "LARDER_LEASE_SECONDS": "4",
        "LARDER_AGENT_LOST_SECONDS": "4",
        "LARDER_FINALIZER_SECONDS": "60",
    }
    with opened(binaries, tmp_path_factory.mktemp("site"), settings, {"a": GPU, "b": GPU, "c": {}}) as site:
        yield site


@pytest.fixture(autouse=True)
def _calm(request: pytest.FixtureRequest) -> Iterator[None]:
    """Leave no fault of one test to the next."""
    yield
    if "site" in request.fixturenames:
        site = request.getfixturevalue("site")
        site.hub.faults.clear()
