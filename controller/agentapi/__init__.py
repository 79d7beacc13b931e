"""What the controller serves to agents: manifests, credentials, and an ear for their progress."""
