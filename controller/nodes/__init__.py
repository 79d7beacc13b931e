"""Nodes: which models each should hold, written to its ModelNode after observe, decide, act."""
