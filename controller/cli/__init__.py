"""Commands for users and administrators of a cluster."""
