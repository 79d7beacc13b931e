"""Reads a model in a separate process: the order, the result, and the number of attempts."""
