"""One cluster of real nodes with Larder installed by its charts, for all tests of this folder."""

import os
from collections.abc import Iterator

import pytest

from rig.binaries import cache_dir
from rig.errors import StartFailed
from rig.node import images
from rig.node.cluster import NodeCluster
from rig.node.installation import Installation
from rig.node.prepare import tools
from rig.node.sources import sources_on
from tests.e2e.real_nodes import require_real_nodes

GPU = {"gpu": "yes"}


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """Node `one` in the group `gpus`, with Larder installed; LARDER_E2E=required turns skips into failures."""
    require_real_nodes()
    cache, state = cache_dir(os.environ), tmp_path_factory.mktemp("e2e")
    archives = images.build_all(cache, print)
    with NodeCluster(tools(os.environ), state, cache) as cluster, sources_on(cluster, state) as (hub, s3):
        for archive in archives:
            cluster.load_image(archive)
        cluster.add_node("one", GPU)
        site = Installation(cluster=cluster, hub=hub, s3=s3, folder=state / "models")
        try:
            site.install(controller={"drainSeconds": 2})
        except StartFailed as error:
            pytest.fail(f"{error}\n{site.explain()}", pytrace=False)
        site.create("ModelCacheNodeGroup", "gpus", {"storageLimit": "1Gi", "nodeSelector": GPU})
        yield site


@pytest.fixture(autouse=True)
def _clean(request: pytest.FixtureRequest) -> Iterator[None]:
    """Remove all faults and workloads after each test, even if it failed."""
    site = request.getfixturevalue("site") if "site" in request.fixturenames else None
    yield
    if isinstance(site, Installation):
        site.hub.faults.clear()
        site.remove_workloads()
