"""Answers kube-scheduler: which nodes have the devices and models that a pod asks for, and which devices it gets."""
