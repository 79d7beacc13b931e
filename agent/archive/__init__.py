"""Archives that are stored unpacked: checked before any byte is written, then unpacked."""
