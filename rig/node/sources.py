"""A hub and an S3 server beside the control plane, reachable from real nodes and pods."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rig.hub import Hub
from rig.node.cluster import NodeCluster
from rig.node.namespaces import within_network
from rig.node.port_forward import PortForward
from rig.s3 import S3


@contextmanager
def sources_on(cluster: NodeCluster, state: Path) -> Iterator[tuple[Hub, S3]]:
    """Serve both during a block; their data is below `state`."""
    with within_network(cluster.lan.network):
        hub = Hub(state / "hub", host=cluster.host)
    s3 = S3(cluster.tools.plane, state / "s3", enter=cluster.lan.enter, host=cluster.host)
    with PortForward(cluster.lan.network, [s3.port]), hub, s3:
        yield hub, s3
