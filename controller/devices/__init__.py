"""Chooses the node for a pod's devices, and the devices on it: plain functions of data."""
