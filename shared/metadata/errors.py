"""What can be wrong with the files that describe a model.

NeedsAction
└── MetadataError           names the file, and the field where there is one
    ├── MetadataMissing     no file that describes a model
    ├── MetadataMalformed   not what its format demands
    └── MetadataOversized   larger than any real one; not read, so that reading stays within its bounds
"""

from shared.errors import NeedsAction

_LONGEST_NAME = 120


class MetadataError(NeedsAction):
    """A file, and a field in it (empty: the file as a whole), that cannot be used."""

    def __init__(self, file: str, field: str, problem: str) -> None:
        self.file, self.field = file, field
        where = f"{shown(file)}, field {shown(field)}" if field else shown(file)
        super().__init__(f"{where}: {problem}")


class MetadataMissing(MetadataError):
    """There is no file that describes a model."""


class MetadataMalformed(MetadataError):
    """The file is not what its format demands."""


class MetadataOversized(MetadataError):
    """The file, or a value in it, is larger than any real one."""


def directory_in_place_of(file: str) -> MetadataMalformed:
    """Return the error for a directory that has the name of a file that describes the model."""
    return MetadataMalformed(file, "", "is a directory; put the file itself there, or remove it")


def shown(name: str) -> str:
    """Return a name as it may stand in a message: printable ASCII, not too long."""
    text = name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}..."
    return text if text.isascii() and text.isprintable() else ascii(text)
