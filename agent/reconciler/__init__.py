"""The reconciler that brings a node to its desired state: observe, decide, act."""
