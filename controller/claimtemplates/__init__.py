"""Volume claim templates: the claims that each pod of a workload gets for itself."""
