"""`larder demo`: the main use case, live, on real components on this machine."""

from rig.demo.command import main

__all__ = ["main"]
