"""Where models come from: one port, one module a kind of source."""
