"""Finds the files of a model that are archives, which nodes unpack."""

from collections.abc import Sequence

from msgspec.structs import replace

from shared.manifest import File

_SUFFIXES = {".tar": "tar", ".tar.gz": "tar.gz", ".tgz": "tar.gz", ".zip": "zip"}


def find_archives(files: Sequence[File]) -> list[File]:
    """Return the archives among the files of a model, each with `archive` set.

    These are the files that the source declares as archives. If it declares none, a model's only file is an archive if
    its name says so.
    """
    if declared := [file for file in files if file.archive]:
        return declared
    if len(files) != 1:
        return []
    name = files[0].path.rpartition("/")[2].lower()
    packed = (form for suffix, form in _SUFFIXES.items() if name.endswith(suffix) and name != suffix)
    return [replace(files[0], archive=form) for form in packed][:1]
