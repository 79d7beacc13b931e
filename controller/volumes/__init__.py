"""The volumes and claims through which pods mount models from the store of a node."""
