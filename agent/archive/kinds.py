"""The formats of archives."""

from enum import Enum

from shared.errors import InvalidURI
from shared.manifest import File


class Kind(Enum):
    """The format of an archive."""

    TAR = "tar"
    TAR_GZIP = "tar.gz"
    ZIP = "zip"


def kind_of(archive: File) -> Kind:
    """Return the format of an archive. Raises InvalidURI for one that only a newer controller knows."""
    try:
        return Kind(archive.archive)
    except ValueError as error:
        raise InvalidURI(
            f"{archive.path!r} is packed as {archive.archive!r}, which this version cannot unpack; upgrade the agents"
        ) from error
