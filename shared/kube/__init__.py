"""The Kubernetes API: one transport, reflectors, a work queue, leader election and conditional edits."""
