"""`larder evict --dry-run`: what nodes would evict to make room, in which order, and why the rest stays."""
