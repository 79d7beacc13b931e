"""A separate cluster whose kinds of ome.io are removed while its controller is stopped."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from rig.binaries import Binaries
from rig.control_plane import ControlPlane
from rig.hub import Hub
from rig.larder import LarderCluster, LarderOptions
from rig.larder.programs import Sources
from rig.larder.site import Site
from rig.s3 import S3
from rig.source_fixtures import FileServer

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ABSENT = ("basemodels.ome.io", "clusterbasemodels.ome.io")
CRDS = Path(__file__).parents[3] / "crds"


@contextmanager
def without_ome(binaries: Binaries, s3: S3, state: Path, settings: Mapping[str, str]) -> Iterator[Site]:
    """Yield the site; the test installs other kinds instead and starts the controller again."""
    with ControlPlane(binaries, state / "plane") as plane, Hub(state / "hub") as hub:
        options = LarderOptions(
            Sources(hub.endpoint, "", "127.0.0.1/32"),
            {"LARDER_DRAIN_SECONDS": "1", "LARDER_LEASE_SECONDS": "4", **settings},
        )
        with LarderCluster(plane, state, options) as cluster:
            cluster.add_node("a", {"gpu": "yes"})
            cluster.controllers[0].process.stop()
            site = Site(hub=hub, s3=s3, folder=state / "models", cluster=cluster, web=FileServer(), web_url="")
            for name in ABSENT:
                cluster.api.delete(f"{DEFINITIONS}/{name}")
                site.until(lambda name=name: not cluster.api.answers(f"{DEFINITIONS}/{name}"), f"{name} to be gone")  # type: ignore[misc]
            yield site
