"""Archives that a model keeps as their files: checked before a byte is written, then unpacked."""
