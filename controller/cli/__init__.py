"""Commands for people who look at a cluster."""
