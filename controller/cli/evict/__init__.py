"""`larder evict --dry-run`: what would go from nodes to make room, in which order, and why the rest stays."""
