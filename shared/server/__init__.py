"""HTTP servers within a program that owns its signals."""
