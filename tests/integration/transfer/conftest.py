"""Fixtures of the download engine's tests: those of the store."""

from tests.builders.stores import fetch_blobs, fetch_model, root, small_disk, source, store

__all__ = ["fetch_blobs", "fetch_model", "root", "small_disk", "source", "store"]
