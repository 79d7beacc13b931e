"""Files that are already on the machine."""
