"""Errors in the files that describe a model.

NeedsAction
└── MetadataError           names the file, and the field if there is one
    ├── MetadataMissing     no file describes the model
    ├── MetadataMalformed   the file violates its format
    └── MetadataOversized   larger than in any real model; not read, so that reading stays within its limits
"""

from shared.errors import NeedsAction

_LONGEST_NAME = 120


class MetadataError(NeedsAction):
    """An unusable file, or an unusable field in it (empty: the whole file)."""

    def __init__(self, file: str, field: str, problem: str) -> None:
        self.file, self.field = file, field
        where = f"{shown(file)}, field {shown(field)}" if field else shown(file)
        super().__init__(f"{where}: {problem}")


class MetadataMissing(MetadataError):
    """No file describes the model."""


class MetadataMalformed(MetadataError):
    """The file violates its format."""


class MetadataOversized(MetadataError):
    """The file, or a value in it, is larger than in any real model."""


def directory_in_place_of(file: str) -> MetadataMalformed:
    """Return the error for a directory in place of a file that describes the model."""
    return MetadataMalformed(file, "", "is a directory; replace it with the file, or remove it")


def shown(name: str) -> str:
    """Return a name made safe for a message: printable ASCII, shortened."""
    text = name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}..."
    return text if text.isascii() and text.isprintable() else ascii(text)
