"""What each node shall hold: observe, decide, act on its ModelNode."""
