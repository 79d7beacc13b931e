"""The formats of archives."""

from enum import Enum

from shared.errors import InvalidURI
from shared.manifest import File


class ArchiveFormat(Enum):
    """The format of an archive."""

    TAR = "tar"
    TAR_GZIP = "tar.gz"
    ZIP = "zip"


def format_of(archive: File) -> ArchiveFormat:
    """Return the format of an archive. Raises InvalidURI for one that only a newer controller knows."""
    try:
        return ArchiveFormat(archive.archive)
    except ValueError as error:
        raise InvalidURI(
            f"{archive.path!r} is packed as {archive.archive!r}, which this version cannot unpack; upgrade the agents"
        ) from error
