"""What the controller keeps of sources: credentials, manifests, and how often each namespace may ask."""
