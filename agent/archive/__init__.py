"""Archives that are a whole model: looked through before a byte is written, then unpacked."""
