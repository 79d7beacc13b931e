"""Single files behind https:// URLs."""
