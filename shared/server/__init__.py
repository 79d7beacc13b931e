"""HTTP servers inside a program that owns its signals."""
