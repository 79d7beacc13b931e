"""A cluster with Larder's programs on rig nodes, its sources, and the moves that tests of the whole system make."""

from dataclasses import dataclass
from pathlib import Path

from rig.api import Api
from rig.larder.cluster import LarderCluster
from rig.larder.moves import Json, Moves
from rig.shelves import FileServer

_PODS = "/api/v1/namespaces/default/pods"


@dataclass(kw_only=True)
class Site(Moves):
    """The cluster and its sources; nodes have no kubelet, and pods no processes."""

    cluster: LarderCluster
    web: FileServer
    web_url: str

    @property
    def api(self) -> Api:
        """A client with every right."""
        return self.cluster.api

    def store(self, node: str) -> Path:
        """Return where the store of a node is on this machine's disk."""
        return self.cluster.agents[node].root

    def pod(self, body: Json) -> Json:
        """Create a pod and return it as it was admitted."""
        return self.api.create(_PODS, body)

    def pod_node(self, name: str) -> str:
        """Return the node that the scheduler chose, empty before."""
        return str(self.api.get(f"{_PODS}/{name}")["spec"].get("nodeName", ""))

    def delete_pod(self, name: str) -> None:
        """Take a pod away at once."""
        self.api.delete(f"{_PODS}/{name}", grace_s=0)
