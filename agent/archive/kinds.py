"""Which models are archives."""

from collections.abc import Sequence
from enum import Enum

from shared.manifest import File


class Kind(Enum):
    """How an archive is made."""

    TAR = "tar"
    TAR_GZIP = "tar.gz"
    ZIP = "zip"


_SUFFIXES = {".tar": Kind.TAR, ".tar.gz": Kind.TAR_GZIP, ".tgz": Kind.TAR_GZIP, ".zip": Kind.ZIP}


def archive_kind(files: Sequence[File]) -> Kind | None:
    """Return the kind of the archive that is a model's only file; None for others, two archives among them."""
    if len(files) != 1:
        return None
    name = files[0].path.rpartition("/")[2].lower()
    return next((kind for suffix, kind in _SUFFIXES.items() if name.endswith(suffix) and name != suffix), None)
