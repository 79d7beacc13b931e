"""The read model of the cluster: caches with indexes, ownership, served CRDs, live reads."""
