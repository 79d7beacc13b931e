"""Fixtures of the store's tests."""

from tests.stores import bring, root, small_disk, source, stock, store

__all__ = ["bring", "root", "small_disk", "source", "stock", "store"]
