"""Which pods use models, wait for them, or mount their volumes."""
