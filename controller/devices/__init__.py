"""Which node serves the devices that a pod asks for, and which of its devices: plain functions of data."""
