"""URIs of models."""
