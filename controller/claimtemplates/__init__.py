"""Volume claim templates: each pod of a workload gets PersistentVolumeClaims of its own from them."""
