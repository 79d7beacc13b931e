"""Archives whose files a model has in their place: looked through before a byte is written, then unpacked."""
