"""The private network of a cluster of nodes: who has which address."""

from dataclasses import dataclass

GATEWAY = "10.99.0.1"  # the control plane, the cluster's DNS, and the way from one node's pods to another's
POD_RANGE = "10.244.0.0/16"
_FIRST_HOST = 10


@dataclass(frozen=True)
class NodeAddresses:
    """The addresses of the node with this number, counted from 1."""

    number: int

    @property
    def ip(self) -> str:
        """The node's own address."""
        return f"10.99.0.{_FIRST_HOST + self.number}"

    @property
    def pods(self) -> str:
        """The range that its pods get theirs from."""
        return f"10.244.{self.number}.0/24"
