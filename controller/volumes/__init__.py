"""The volumes and PersistentVolumeClaims through which pods mount models from the store of a node."""
