"""Fixtures of the store's tests."""

from tests.stores import fetch_blobs, fetch_model, root, small_disk, source, store

__all__ = ["fetch_blobs", "fetch_model", "root", "small_disk", "source", "store"]
