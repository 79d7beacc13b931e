"""A control plane with real nodes, in namespaces that leave nothing behind."""

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from rig.api import Api
from rig.binaries import Binaries
from rig.control_plane import ControlPlane, Options
from rig.errors import CallRefused
from rig.helm import Helm
from rig.node import containerd, kubelet
from rig.node.addresses import GATEWAY, NodeAddresses
from rig.node.binaries import NodeBinaries
from rig.node.image_store import ImageStores
from rig.node.lan import Lan
from rig.node.machine import CONTAINERD, Machine
from rig.node.namespaces import command
from rig.node.port_forward import PortForward
from rig.node.small_disk import SmallDisk
from rig.processes import Process
from rig.running import Running

_NODE_READY_S = 120.0
_NODE_LOST_AFTER_S = 50.0  # as in Kubernetes: a busy machine may delay heartbeats, and no test waits for a lost node


@dataclass(frozen=True)
class Tools:
    """The programs that make up a cluster, and those that drive it."""

    plane: Binaries
    node: NodeBinaries
    helm: Path


@dataclass
class _Node:
    machine: Machine
    disk: SmallDisk | None = None
    processes: dict[str, Process] = field(default_factory=dict)


class NodeCluster(Running):
    """The control plane and its nodes; use as a context manager, and add nodes."""

    def __init__(self, tools: Tools, state: Path, cache: Path) -> None:
        self.state, self.tools = state.absolute(), tools
        self._stores = ImageStores(cache)
        self.lan = Lan(self.state)
        self._nodes: dict[str, _Node] = {}
        self._numbers = count(1)
        self._images: list[Path] = []
        self._closing = ExitStack()

    @property
    def api(self) -> Api:
        """A client with all rights."""
        return self.plane.api

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig of the administrator, valid outside the namespaces."""
        return self.plane.kubeconfig

    @property
    def host(self) -> str:
        """The address at which nodes and pods reach programs beside the control plane (see `Lan.network`)."""
        return GATEWAY

    def machine(self, node: str) -> Machine:
        """Return the machine of a node."""
        return self._nodes[node].machine

    def load_image(self, archive: Path) -> None:
        """Load an image on all nodes, including future ones."""
        self._images.append(archive)
        for node in self._nodes.values():
            containerd.load(node.machine, self.tools.node, archive)

    def add_node(self, name: str, labels: Mapping[str, str] | None = None, disk: SmallDisk | None = None) -> None:
        """Add a node and wait until it is Ready; the content of a small disk does not survive a reboot."""
        machine = Machine(name, NodeAddresses(next(self._numbers)), self.lan, self.state / "nodes")
        machine.disk.mkdir(parents=True, exist_ok=True)
        node = self._nodes[name] = _Node(machine, disk)
        self._closing.callback(machine.discard)
        self._closing.callback(machine.shut)
        self._boot(node)
        self._start_containerd(node)
        self._start_node(node)
        self.wait_node(name)
        self.api.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": dict(labels or {})}})

    def remove_node(self, name: str) -> None:
        """Scrap a node: cut its power, discard its disk, and delete its Node and pods."""
        machine = self._nodes.pop(name).machine
        machine.shut()
        machine.discard()
        self.api.delete(f"/api/v1/nodes/{name}")
        for pod in self.api.get(f"/api/v1/pods?fieldSelector=spec.nodeName={name}")["items"]:
            metadata = pod["metadata"]
            self.api.delete(f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}", grace_s=0)

    def reboot(self, name: str) -> None:
        """Cut the power of a node, turn it on again, and wait until it is Ready; its disk stays."""
        node = self._nodes[name]
        node.machine.shut()
        self._boot(node)
        node.processes["containerd"] = containerd.start(node.machine, self.tools.node)
        self._start_node(node)
        self.wait_node(name)

    def restart_kubelet(self, name: str) -> None:
        """Kill kubelet while its pods run, restart it, and wait until the node is Ready and kubelet knows its pods."""
        node = self._nodes[name]
        node.processes["kubelet"].kill()
        self._start_kubelet(node)
        self.wait_node(name)
        node.processes["kubelet"].wait_ready(lambda: self._knows_its_pods(name), _NODE_READY_S, "aware of its pods")

    def wait_node(self, name: str) -> None:
        """Wait until kubelet answers and has reported the node Ready after this call."""
        since = time.time()
        process = self._nodes[name].processes["kubelet"]
        process.wait_ready(lambda: self._reported(name, since), _NODE_READY_S, "ready")

    def exec(self, namespace: str, pod: str, argv: Sequence[str], container: str = "") -> str:
        """Run a program in a pod and return its output; raises StartFailed with the error."""
        chosen = [f"--container={container}"] if container else []
        return self.kubectl("exec", f"--namespace={namespace}", pod, *chosen, "--", *argv)

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        """Run kubectl as the administrator and return its output; raises StartFailed with the error."""
        argv = [str(self.tools.plane.kubectl), f"--kubeconfig={self.kubeconfig}", *arguments]
        return command(argv, stdin)

    @property
    def helm(self) -> Helm:
        """Helm as the administrator."""
        return Helm(self.tools.helm, self.state / "helm", self.kubeconfig)

    def start(self) -> None:
        """Start network, control plane and DNS."""
        self._closing.enter_context(self.lan)
        options = Options(_NODE_LOST_AFTER_S, enter=self.lan.enter, address=GATEWAY)
        self.plane = ControlPlane(self.tools.plane, self.state / "plane", options)
        self._closing.enter_context(PortForward(self.lan.network, self.plane.ports))
        self._closing.enter_context(self.plane)
        dns = kubelet.start_dns(self.lan, self.plane, self.tools.node, self.state)
        self._closing.callback(dns.kill)

    def stop(self) -> None:
        """Cut the power of everything; logs stay."""
        self._closing.close()

    def _start_containerd(self, node: _Node) -> None:
        """Start containerd for the first time, with the images."""
        machine, folder = node.machine, node.machine.disk / CONTAINERD.lstrip("/")
        with self._stores.prepared(self._images, folder) as missing:
            if missing:
                importing = containerd.start(machine, self.tools.node)
                for archive in missing:
                    containerd.load(machine, self.tools.node, archive)
                importing.kill()
        node.processes["containerd"] = containerd.start(machine, self.tools.node)

    def _boot(self, node: _Node) -> None:
        node.machine.boot()
        if node.disk:
            node.disk.mount(node.machine)

    def _start_kubelet(self, node: _Node) -> None:
        settings = node.disk.eviction() if node.disk else {}
        node.processes["kubelet"] = kubelet.start_kubelet(node.machine, self.plane, self.tools.node, settings)

    def _start_node(self, node: _Node) -> None:
        self._start_kubelet(node)
        node.processes["kube-proxy"] = kubelet.start_kube_proxy(node.machine, self.plane, self.tools.node)

    def _reported(self, name: str, since: float) -> bool:
        try:
            node = self.api.get(f"/api/v1/nodes/{name}")
        except CallRefused:
            return False
        return ready_since(node, since) and self.api.answers(f"/api/v1/nodes/{name}/proxy/healthz")

    def _knows_its_pods(self, name: str) -> bool:
        """Return whether kubelet lists every pod of its node; until then it reports that a pod does not exist."""
        known = self.api.get(f"/api/v1/nodes/{name}/proxy/pods")["items"] or []
        bound = self.api.get(f"/api/v1/pods?fieldSelector=spec.nodeName={name}")["items"]
        return {pod["metadata"]["uid"] for pod in bound} <= {pod["metadata"]["uid"] for pod in known}


def ready_since(node: dict[str, Any], since: float) -> bool:
    """Return whether a heartbeat after `since`, in seconds since 1970, reports a Node Ready."""
    for condition in node.get("status", {}).get("conditions", []):
        if condition["type"] == "Ready":
            beat = time.mktime(time.strptime(condition["lastHeartbeatTime"], "%Y-%m-%dT%H:%M:%SZ")) - time.timezone
            return bool(condition["status"] == "True" and beat >= since)
    return False
