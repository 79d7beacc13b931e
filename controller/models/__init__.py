"""Declared models: resolve the source, report the state, hold deletion until the nodes are clean."""
