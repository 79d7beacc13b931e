"""Reads the metadata of a model from its files: one reader for claims, nodes and the command line."""
