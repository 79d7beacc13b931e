"""What the configuration of a model says: dimensions, context, caches, quantization, capabilities."""
