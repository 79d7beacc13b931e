"""Metadata of models that came as archives, read from the unpacked files because no source has it."""
