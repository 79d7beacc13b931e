"""`larder demo`: the main job, live, on real parts of this machine."""

from rig.demo.command import main

__all__ = ["main"]
