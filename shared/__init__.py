"""Code that the controller and the agent share: API types, names, sources, the Kubernetes client."""

__version__ = "0.1.0"
