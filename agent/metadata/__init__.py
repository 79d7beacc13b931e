"""Metadata of models that were downloaded as archives, read from the unpacked files because no source provides it."""
