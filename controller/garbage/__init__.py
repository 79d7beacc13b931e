"""Lists of files that nothing refers to any more: found in memory, confirmed by live reads, removed after a grace."""
