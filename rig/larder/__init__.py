"""Larder itself on the rig: its objects in the API server, its programs as processes."""

from rig.larder.cluster import LarderCluster, LarderOptions

__all__ = ["LarderCluster", "LarderOptions"]
