"""The addresses in the private network of a cluster of nodes."""

from dataclasses import dataclass

GATEWAY = "10.99.0.1"  # the control plane, the cluster DNS, and the route between the pods of different nodes
POD_RANGE = "10.244.0.0/16"
_FIRST_HOST = 10


@dataclass(frozen=True)
class NodeAddresses:
    """The addresses of the node with this number, counted from 1."""

    number: int

    @property
    def ip(self) -> str:
        """The address of the node."""
        return f"10.99.0.{_FIRST_HOST + self.number}"

    @property
    def pods(self) -> str:
        """The address range of its pods."""
        return f"10.244.{self.number}.0/24"
