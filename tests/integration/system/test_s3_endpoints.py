"""A bucket at an endpoint that only a Secret names."""

import base64
from collections.abc import Iterator

import pytest
import trustme

from rig.binaries import Binaries
from rig.control_plane import ControlPlane
from rig.hub import Hub
from rig.larder import LarderCluster, LarderOptions
from rig.larder.programs import NAMESPACE, Sources
from rig.larder.site import Site
from rig.s3 import S3
from rig.source_fixtures import FileServer
from tests.integration.system.sites import GPU


@pytest.fixture(scope="module")
def elsewhere(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A cluster of one node without an S3 endpoint in its settings, but with its address allowed."""
    state, authority = tmp_path_factory.mktemp("elsewhere"), trustme.CA()
    authority.cert_pem.write_to_path(str(state / "ca.pem"))
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(state / "own.pem"))
    with (
        ControlPlane(binaries, state / "plane") as plane,
        Hub(state / "hub") as hub,
        S3(binaries, state / "s3", certificate=state / "own.pem") as s3,
    ):
        sources, bundle = Sources(hub.endpoint, "", "127.0.0.1/32"), {"AWS_CA_BUNDLE": str(state / "ca.pem")}
        options = LarderOptions(sources, controller=bundle, agent=bundle, replicas=1)
        with LarderCluster(plane, state, options) as cluster:
            cluster.nodes.add("a", GPU)
            cluster.start_agent("a", wait=False)
            cluster.wait_agents()
            site = Site(hub=hub, s3=s3, folder=state / "models", cluster=cluster, web=FileServer(), web_url="")
            site.create("ModelCacheNodeGroup", "gpus", {"storageLimit": "1Gi", "nodeSelector": GPU})
            yield site


def put_secret(site: Site, hosts: str) -> str:
    """Make a Secret with the keys and the address of the server, and return its name."""
    values = {
        "AWS_ACCESS_KEY_ID": site.s3.access_key,
        "AWS_SECRET_ACCESS_KEY": site.s3.secret_key,
        "AWS_ENDPOINT_URL": site.s3.endpoint,
    }
    name = str(site.name("keys"))
    metadata = {
        "name": name,
        "labels": {"larder.dev/credentials": "true"},
        "annotations": {"larder.dev/hosts": hosts},
    }
    data = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
    site.api.create(f"/api/v1/namespaces/{NAMESPACE}/secrets", {"metadata": metadata, "data": data})
    return name


def put_model(site: Site) -> str:
    """Put a model into a bucket of its own and return its URI."""
    bucket = site.name("bucket")
    weights = site.s3.path(bucket, "m/sub/weights.bin")
    weights.parent.mkdir(parents=True)
    weights.write_bytes(b"w" * 100_000)
    return f"s3://{bucket}/m"


def test_a_model_is_fetched_from_the_endpoint_in_its_secret(elsewhere: Site) -> None:
    keys = put_secret(elsewhere, f"127.0.0.1:{elsewhere.s3.port}")
    cache = elsewhere.cache(put_model(elsewhere), credentialsSecret=keys)
    revision = elsewhere.wait_ready("ClusterModelCache", cache)["resolvedRevision"]
    assert (elsewhere.snapshot("a", cache, revision) / "sub/weights.bin").read_bytes() == b"w" * 100_000


def test_a_secret_with_keys_for_another_host_is_reported(elsewhere: Site) -> None:
    cache = elsewhere.cache(put_model(elsewhere), credentialsSecret=put_secret(elsewhere, "s3.example.org"))
    message = elsewhere.wait_reason("ClusterModelCache", cache, "AuthDenied")
    assert f"add 127.0.0.1:{elsewhere.s3.port} to the Secret's annotation larder.dev/hosts" in message
