"""What is known about each node: its agent, its groups, and the entries of its ModelNode."""
