"""One reading of a model in a process of its own: its order, its result, and how many were tried."""
