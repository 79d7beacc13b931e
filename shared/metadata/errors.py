"""What can be wrong with the files that describe a model.

NeedsAction
└── MetadataError           names the file, and the field if there is one
    ├── MetadataMissing     no file that describes a model
    ├── MetadataMalformed   violates its format
    └── MetadataOversized   larger than any real one; not read, so that reading stays within its bounds
"""

from shared.errors import NeedsAction

_LONGEST_NAME = 120


class MetadataError(NeedsAction):
    """A file, and a field in it (empty for the whole file), that cannot be used."""

    def __init__(self, file: str, field: str, problem: str) -> None:
        self.file, self.field = file, field
        where = f"{shown(file)}, field {shown(field)}" if field else shown(file)
        super().__init__(f"{where}: {problem}")


class MetadataMissing(MetadataError):
    """No file describes the model."""


class MetadataMalformed(MetadataError):
    """The file violates its format."""


class MetadataOversized(MetadataError):
    """The file, or a value in it, is larger than any real one."""


def directory_in_place_of(file: str) -> MetadataMalformed:
    """Return the error for a directory with the name of a file that describes the model."""
    return MetadataMalformed(file, "", "is a directory; replace it with the file, or remove it")


def shown(name: str) -> str:
    """Return a name made safe for a message: printable ASCII, shortened."""
    text = name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}..."
    return text if text.isascii() and text.isprintable() else ascii(text)
