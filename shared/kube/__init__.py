"""The Kubernetes API: one transport, reflectors, a work queue, elections, conditional edits."""
