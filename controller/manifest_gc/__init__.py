"""Unreferenced manifests: found in the caches, confirmed by live reads, deleted after a grace period."""
