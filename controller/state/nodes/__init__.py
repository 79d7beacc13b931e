"""What is known of each node: its agent, its groups, and the entries of its ModelNode."""
