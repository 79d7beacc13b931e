"""The network of the nodes: a namespace with a bridge, in which the control plane runs too."""

from collections.abc import Sequence
from pathlib import Path

from rig.node import programs
from rig.node.addresses import GATEWAY, NodeAddresses
from rig.node.namespaces import OWN, command, network_of
from rig.processes import Process, Program
from rig.running import Running

_READY_S = 60.0


class Lan(Running):
    """The namespace, held open by an idle process; the kernel removes it after its last process.

    Use as a context manager.
    """

    def __init__(self, state: Path) -> None:
        self._log = state / "log" / "lan.log"
        self._holder: Process | None = None

    @property
    def network(self) -> Path:
        """The file of the network namespace."""
        assert self._holder is not None  # noqa: S101 - only programs in the namespace need it
        return network_of(self._holder.pid)

    @property
    def enter(self) -> list[str]:
        """The start of a command line that runs a program in the namespace; the program keeps its process id."""
        return [programs.NSENTER, f"--net={self.network}", "--"]

    def start(self) -> None:
        """Create the namespace and its bridge."""
        outside = OWN.readlink()
        self._holder = Process(Program("lan", [programs.UNSHARE, "--net", programs.SLEEP, "infinity"]), self._log)
        self._holder.wait_ready(lambda: self.network.readlink() != outside, _READY_S)
        self._ip(
            "link set lo up",
            "link add lan0 type bridge",
            f"address add {GATEWAY}/24 dev lan0",
            "link set lan0 up",
        )
        forward(self.enter)

    def stop(self) -> None:
        """Release the namespace."""
        if self._holder is not None:
            self._holder.kill()

    def attach(self, node: NodeAddresses, pid: int) -> None:
        """Give the network of a node's first process an interface on the bridge, its address, and a default route."""
        port = f"node{node.number}"
        self._ip(
            f"link add {port} type veth peer name eth0 netns {pid}",
            f"link set {port} master lan0 up",
            f"route replace {node.pods} via {node.ip}",
        )
        inside = [programs.NSENTER, f"--net={network_of(pid)}", "--"]
        batch = [f"address add {node.ip}/24 dev eth0", "link set lo up", "link set eth0 up"]
        batch.append(f"route add default via {GATEWAY}")
        command([*inside, programs.IP, "-batch", "-"], "\n".join(batch) + "\n")
        forward(inside)

    def _ip(self, *lines: str) -> None:
        command([*self.enter, programs.IP, "-batch", "-"], "\n".join(lines) + "\n")


def forward(enter: Sequence[str]) -> None:
    """Enable IP forwarding in a network namespace."""
    command([*enter, programs.SYSCTL, "-qw", "net.ipv4.ip_forward=1"])
