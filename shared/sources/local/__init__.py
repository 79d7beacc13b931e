"""Files that are on the machine already."""
