"""The child process that reads one unpacked snapshot: `python -m agent.metadata.child`."""

import os.path
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import TypeVar

from agent.metadata.read_request import SnapshotReadRequest
from shared.errors import LarderError
from shared.metadata.errors import MetadataError
from shared.metadata.files import DirectoryFiles
from shared.metadata.reader import read_metadata
from shared.metadata.reading.attempts import INTERRUPTED
from shared.metadata.reading.confined import serve_request
from shared.metadata.reading.termination_message import Reading, failed
from shared.paths import COMPLETED

T = TypeVar("T")


class UnpackedFiles:
    """The files of a snapshot without its completion mark; if all are in one directory, the model is that directory.

    Files left by macOS and version control do not count: `__MACOSX`, and names that begin with a dot.
    """

    def __init__(self, folder: str) -> None:
        self._files = DirectoryFiles(folder, shown="the unpacked archive")
        sizes = {path: size for path, size in self._files.sizes.items() if path != COMPLETED}
        counted = [path for path in sizes if not path.startswith((".", "__MACOSX/"))] or list(sizes)
        common = os.path.commonpath([PurePosixPath(path).parent for path in counted]) if counted else ""
        self._top = f"{common}/" if common else ""
        self.sizes: Mapping[str, int] = self._below_top(sizes)
        self.broken: Mapping[str, LarderError] = self._below_top(self._files.broken)

    def _below_top(self, found: Mapping[str, T]) -> dict[str, T]:
        return {path.removeprefix(self._top): value for path, value in found.items() if path.startswith(self._top)}

    def read(self, path: str, offset: int, length: int) -> bytes:
        """Return a part of a file. Raises LarderError."""
        return self._files.read(self._top + path, offset, length)


def read_unpacked(request: SnapshotReadRequest) -> Reading:
    """Return the metadata in the files, or why there is none; after a disk error, a later attempt may succeed."""
    try:
        return Reading(metadata=read_metadata(UnpackedFiles(request.folder)))
    except MetadataError as error:
        return failed(error.reason, str(error))
    except LarderError as error:
        return failed(INTERRUPTED, str(error))


if __name__ == "__main__":
    serve_request(SnapshotReadRequest, read_unpacked)
