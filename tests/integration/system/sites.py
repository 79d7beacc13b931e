"""Builds the sites of these tests."""

import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import trustme

from rig.binaries import Binaries
from rig.control_plane import ControlPlane, Options
from rig.demo.parts import secret
from rig.held_link import HeldLink
from rig.hub import Hub
from rig.larder import LarderCluster, LarderOptions
from rig.larder.programs import NAMESPACE, Sources
from rig.larder.site import Site
from rig.s3 import S3
from rig.scripted_http import scripted
from rig.source_fixtures import FileServer

GPU = {"gpu": "yes"}
CSI_DRIVER = "s3.csi.aws.com"  # that a ModelCache may name in pvSpec
KSERVE_SERVICES = "/apis/serving.kserve.io/v1beta1/namespaces/default/inferenceservices"


@contextmanager
def opened(
    binaries: Binaries,
    state: Path,
    settings: Mapping[str, str],
    nodes: Mapping[str, Mapping[str, str]],
    replicas: int = 2,
    plane_options: Options | None = None,
    link: HeldLink | None = None,
) -> Iterator[Site]:
    """A control plane of its own, the sources, and agents on `nodes`, those with the labels GPU in a group `gpus`."""
    authority, tls, web = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), FileServer()
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    authority.cert_pem.write_to_path(str(state / "ca.pem"))
    with (
        ControlPlane(binaries, state / "plane", plane_options) as plane,
        Hub(state / "hub") as hub,
        S3(binaries, state / "s3") as s3,
        scripted(web.answer, tls) as server,
    ):
        sources = Sources(hub.endpoint, s3.endpoint, "127.0.0.1/32", str(state / "ca.pem"))
        with LarderCluster(plane, state, LarderOptions(sources, settings, replicas=replicas, link=link)) as cluster:
            for name, labels in nodes.items():
                cluster.nodes.add(name, labels)
                cluster.start_agent(name, wait=False)
            cluster.wait_agents()
            namespace = f"/api/v1/namespaces/{NAMESPACE}/secrets"
            cluster.api.ensure(namespace, secret(s3.access_key, s3.secret_key, NAMESPACE))
            site = Site(hub=hub, s3=s3, folder=state / "models", cluster=cluster, web=web, web_url=server.url)
            site.create("ModelCacheNodeGroup", "gpus", {"storageLimit": "1Gi", "nodeSelector": GPU})
            yield site
