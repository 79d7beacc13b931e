"""Keeps a cluster without a leader, so that it does nothing while users make many requests."""

from collections.abc import Iterator
from contextlib import contextmanager

from rig.larder.programs import ControllerProgram
from rig.larder.site import Site
from rig.ports import LOOPBACK
from tests.readers.metrics import scrape

_LEADING = "larder_leader"
_LEASE = "/apis/coordination.k8s.io/v1/namespaces/larder-system/leases/larder-controller"


@contextmanager
def without_leader(site: Site) -> Iterator[None]:
    """Keep every replica from leading for a while; admission works meanwhile."""
    site.api.patch(_LEASE, {"spec": {"holderIdentity": "nobody", "leaseDurationSeconds": 3600}})
    site.until(lambda: not any(_leads(c) for c in site.cluster.controllers), "the leader to stop")
    yield
    site.api.patch(_LEASE, {"spec": {"holderIdentity": ""}})


def _leads(program: ControllerProgram) -> bool:
    return scrape(f"http://{LOOPBACK}:{program.health_port}")[_LEADING] != 0
