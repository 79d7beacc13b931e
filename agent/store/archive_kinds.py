"""How archives are packed."""

from enum import Enum

from shared.errors import InvalidURI
from shared.manifest import File


class Kind(Enum):
    """How an archive is made."""

    TAR = "tar"
    TAR_GZIP = "tar.gz"
    ZIP = "zip"


def kind_of(archive: File) -> Kind:
    """Return how an archive is packed. Raises InvalidURI for what a newer controller may know."""
    try:
        return Kind(archive.archive)
    except ValueError as error:
        raise InvalidURI(
            f"{archive.path!r} is packed as {archive.archive!r}, which this version cannot unpack; upgrade the agents"
        ) from error
