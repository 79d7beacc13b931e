"""One cluster with Larder on it for this folder: two GPU nodes in a group, one node outside, a hub, an S3 server."""

import ssl
from collections.abc import Iterator

import pytest
import trustme

from rig.binaries import Binaries
from rig.control_plane import ControlPlane
from rig.demo.parts import secret
from rig.hub import Hub
from rig.larder import LarderCluster, LarderOptions
from rig.larder.programs import NAMESPACE, Sources
from rig.larder.site import Site
from rig.s3 import S3
from rig.scripted_http import scripted
from rig.shelves import FileServer

GPU = {"gpu": "yes"}


@pytest.fixture(scope="package")
def site(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A control plane of its own: these tests install webhooks, kill controllers and lose nodes."""
    state = tmp_path_factory.mktemp("site")
    authority, tls, web = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), FileServer()
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    authority.cert_pem.write_to_path(str(state / "ca.pem"))
    with (
        ControlPlane(binaries, state / "plane") as plane,
        Hub(state / "hub") as hub,
        S3(binaries, state / "s3") as s3,
        scripted(web.answer, tls) as server,
    ):
        sources = Sources(hub.endpoint, s3.endpoint, "127.0.0.1/32", str(state / "ca.pem"))
        settings = {
            "LARDER_DRAIN_SECONDS": "1",
            "LARDER_LEASE_SECONDS": "4",
            "LARDER_AGENT_LOST_SECONDS": "4",
            "LARDER_FINALIZER_SECONDS": "60",
        }
        with LarderCluster(plane, state, LarderOptions(sources, settings, replicas=2)) as cluster:
            for name, labels in (("a", GPU), ("b", GPU), ("c", {})):
                cluster.nodes.add(name, labels)
                cluster.start_agent(name, wait=False)
            cluster.wait_agents()
            namespace = f"/api/v1/namespaces/{NAMESPACE}/secrets"
            cluster.api.ensure(namespace, secret(s3.access_key, s3.secret_key, NAMESPACE))
            site = Site(hub=hub, s3=s3, folder=state / "models", cluster=cluster, web=web, web_url=server.url)
            site.create("ModelCacheNodeGroup", "gpus", {"storageLimit": "1Gi", "nodeSelector": GPU})
            yield site


@pytest.fixture(autouse=True)
def _calm(request: pytest.FixtureRequest) -> Iterator[None]:
    """Leave no fault of one test to the next."""
    yield
    if "site" in request.fixturenames:
        site = request.getfixturevalue("site")
        site.hub.faults.clear()
