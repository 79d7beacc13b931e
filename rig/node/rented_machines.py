"""The machines behind the Nodes that Karpenter's provider creates, which are only API objects."""

import threading
from concurrent.futures import Future

import httpx

from rig.node.cluster import NodeCluster
from rig.running import Running
from shared.daemon_thread import start_daemon_thread

_NODES = "/api/v1/nodes?labelSelector=karpenter.sh/nodepool"
_LOOK_S = 1.0
_STOP_S = 180.0  # a machine may be booting


class RentedMachines(Running):
    """Boots a machine for each Node that Karpenter creates, and scraps it when the Node is gone."""

    def __init__(self, cluster: NodeCluster) -> None:
        self._cluster = cluster
        self._booted: set[str] = set()
        self._stop = threading.Event()
        self._work: Future[None] | None = None

    def start(self) -> None:
        """Begin to look for Nodes."""
        self._work = start_daemon_thread(self._follow, "rented-machines")

    def stop(self) -> None:
        """Scrap every machine; raises the error that kept one from booting."""
        self._stop.set()
        if self._work is not None:
            self._work.result(_STOP_S)
        for name in self._booted:
            self._cluster.remove_node(name)
        self._booted.clear()

    def _follow(self) -> None:
        while not self._stop.wait(_LOOK_S):
            try:
                wanted = {node["metadata"]["name"] for node in self._cluster.api.get(_NODES)["items"]}
            except httpx.HTTPError:  # a busy API server: look again
                continue
            for name in sorted(wanted - self._booted):
                self._booted.add(name)
                self._cluster.add_node(name)
            for name in sorted(self._booted - wanted):
                self._cluster.remove_node(name)
                self._booted.discard(name)
