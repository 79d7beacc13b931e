"""Device plugins, and how their devices get into the Node's annotation and status."""
