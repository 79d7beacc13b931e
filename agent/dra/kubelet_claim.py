"""How kubelet identifies a claim."""

from typing import NamedTuple


class KubeletClaim(NamedTuple):
    """The namespace, name and uid of a claim."""

    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"
