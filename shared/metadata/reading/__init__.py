"""Reads a model in a separate process: the request, the result, and the number of attempts."""
