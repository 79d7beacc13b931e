"""How much memory an agent needs for a list of files."""

from collections.abc import Iterable
from dataclasses import dataclass
from sys import getsizeof

# Upper bounds, measured with 500,000 files. A file costs its entry in the list and in the index of contents, and what a
# scan needs for it; a directory costs the kernel's memory for watching it.
_FILE_BYTES = 700
_DIRECTORY_BYTES = 1300


@dataclass(frozen=True, slots=True)
class ListSize:
    """The number of files in a list, and the bytes of memory that it takes."""

    files: int = 0
    memory_bytes: int = 0


def list_size(paths: Iterable[str], stated: Iterable[str] = ()) -> ListSize:
    """Return the size of a list of files with these paths; `stated` are the digests and entity tags in it."""
    files, memory_bytes, directories = 0, 0, set[str]()
    for path in paths:
        files += 1
        memory_bytes += _FILE_BYTES + getsizeof(path)
        parent = path.rpartition("/")[0]
        while parent and parent not in directories:
            directories.add(parent)
            parent = parent.rpartition("/")[0]
    memory_bytes += sum(map(getsizeof, stated)) + len(directories) * _DIRECTORY_BYTES
    return ListSize(files, memory_bytes)
