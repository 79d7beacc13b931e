"""What the controller and the agent both need: API types, names, sources, the Kubernetes client."""
