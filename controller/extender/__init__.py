"""Tells kube-scheduler which nodes have a pod's devices and models, and allocates the devices when it binds."""
