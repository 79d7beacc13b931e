"""`larder status`: what is where, how far, and why not."""
