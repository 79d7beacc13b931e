"""Which files of a model are archives whose files it has in their place."""

from collections.abc import Sequence

from msgspec.structs import replace

from shared.manifest import File

_SUFFIXES = {".tar": "tar", ".tar.gz": "tar.gz", ".tgz": "tar.gz", ".zip": "zip"}


def find_archives(files: Sequence[File]) -> list[File]:
    """Return the archives among a model's files, each with `archive` set.

    Those that the source says are such; where it says nothing, the only file, if its name is that of an archive.
    """
    if said := [file for file in files if file.archive]:
        return said
    if len(files) != 1:
        return []
    name = files[0].path.rpartition("/")[2].lower()
    packed = (form for suffix, form in _SUFFIXES.items() if name.endswith(suffix) and name != suffix)
    return [replace(files[0], archive=form) for form in packed][:1]
