"""The controller's access to sources: credentials, manifests, and rate limits per namespace."""
