"""Pods that wait for their model: gates, progress, and pods that must not wait."""
