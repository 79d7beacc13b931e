"""Fixtures of the store's tests."""

from tests.builders.stores import fetch_blobs, fetch_model, root, small_disk, source, store

__all__ = ["fetch_blobs", "fetch_model", "root", "small_disk", "source", "store"]
