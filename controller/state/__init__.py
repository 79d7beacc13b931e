"""The cached state of the cluster: caches with indexes, ownership, served CRDs, live reads."""
