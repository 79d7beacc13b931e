"""Reads what a model is from its files: one reader for claims, nodes and the command line."""
