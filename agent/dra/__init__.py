"""The node side of Dynamic Resource Allocation: offers the models on this node as devices.

In this package, a claim is always a ResourceClaim, and `held` are the complete snapshots on disk.
"""
