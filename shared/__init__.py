"""What the controller and the agent both need: API types, names, sources, the Kubernetes client."""

__version__ = "0.1.0"
