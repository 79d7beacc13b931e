"""Interprets the configuration of a model: dimensions, context, caches, quantization, capabilities."""
