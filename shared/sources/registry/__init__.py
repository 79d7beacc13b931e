"""Artifacts in container registries."""
