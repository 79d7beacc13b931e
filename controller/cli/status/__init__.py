"""`larder status`: where each model is, its progress, and what blocks it."""
