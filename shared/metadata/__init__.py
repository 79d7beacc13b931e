"""What a model is, read from its files: one reader for claims, nodes and the command line."""
