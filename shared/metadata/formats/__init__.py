"""The headers of weight files: names, types and shapes of tensors."""
