"""One declared model: resolve its source, report its state, hold its deletion until the nodes are clean."""
