"""Node objects without a kubelet: their heartbeats, and the pods bound to them."""

from rig.nodes.fake_kubelet import FakeKubelet
from rig.nodes.manifests import NodeSpec
from rig.nodes.thread import Nodes

__all__ = ["FakeKubelet", "NodeSpec", "Nodes"]
