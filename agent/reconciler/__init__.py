"""What the node shall hold, step by step: observe, decide, act."""
