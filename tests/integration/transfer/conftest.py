"""Fixtures of the download engine's tests: those of the store, which it fills."""

from tests.stores import bring, root, small_disk, source, stock, store

__all__ = ["bring", "root", "small_disk", "source", "stock", "store"]
