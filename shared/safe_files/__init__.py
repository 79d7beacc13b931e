"""Which files cannot be pickles, by name and content. Nothing is ever unpickled or unpacked here."""
