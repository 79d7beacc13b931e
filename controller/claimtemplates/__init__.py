"""Volume claim templates: each pod of a workload gets its own claims from them."""
