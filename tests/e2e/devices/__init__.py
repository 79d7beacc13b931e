"""Devices on real nodes: advertised, scheduled and claimed."""
