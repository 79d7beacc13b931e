"""Node objects without a kubelet: their heartbeats, and the pods bound to them."""

from rig.fake_nodes.fake_kubelet import FakeKubelet
from rig.fake_nodes.manifests import NodeSpec
from rig.fake_nodes.thread import Nodes

__all__ = ["FakeKubelet", "NodeSpec", "Nodes"]
