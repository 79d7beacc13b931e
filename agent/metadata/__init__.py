"""What a model is that came as an archive: read from what was unpacked, as no source can tell."""
