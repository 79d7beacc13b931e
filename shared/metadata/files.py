"""The port to the files of a model, wherever they are: names, sizes, and any part of a file."""

import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from shared.errors import LarderError, SourceNotFound, Unreachable
from shared.manifest import File, Manifest
from shared.metadata.errors import MetadataMissing, directory_in_place_of
from shared.sources.listing_limits import bounded
from shared.sources.local.beneath import Beneath
from shared.sources.port import Source


class ModelFiles(Protocol):
    """The files of one model. `read` is called from several threads at a time."""

    @property
    def sizes(self) -> Mapping[str, int]:
        """Sizes in bytes by path, relative to the model, without the `broken` files."""
        ...

    @property
    def broken(self) -> Mapping[str, LarderError]:
        """Errors by path, for names that cannot be opened: no other reader will open them either."""
        ...

    def read(self, path: str, offset: int, length: int) -> bytes:
        """Read a part of a file.

        Args:
            path: A path of `sizes`.
            offset: Position of the first byte.
            length: Number of bytes.

        Returns:
            Exactly these bytes, or fewer at the end of the file.

        Raises:
            LarderError: The file cannot be read.
        """
        ...


def remark_on(files: ModelFiles) -> str:
    """Return a one-line remark on broken files that the reader skipped; empty if there are none."""
    first, *more = [*(str(error) for _, error in sorted(files.broken.items())), ""]
    count = len(more) - 1
    return f"{first}; and {count} more broken {'file' if count == 1 else 'files'}" if count > 0 else first


class MemoryFiles:
    """The in-memory twin; `read_bytes` counts the bytes read from it."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._files, self.read_bytes = dict(files), 0
        self.broken: Mapping[str, LarderError] = {}

    @property
    def sizes(self) -> Mapping[str, int]:
        """Sizes in bytes by path."""
        return {path: len(body) for path, body in self._files.items()}

    def read(self, path: str, offset: int, length: int) -> bytes:
        """Return a part. Raises SourceNotFound."""
        if path not in self._files:
            raise SourceNotFound(f"there is no {path}")
        part = self._files[path][offset : offset + length]
        self.read_bytes += len(part)
        return part


@dataclass(frozen=True, slots=True)
class DirectoryFiles:
    """A directory `path` below `root`; links are followed as long as they stay below the root.

    Args:
        only: The single file that counts; empty for all files.
        shown: The name of the directory, or of the single file, in messages; by default the real one.
        place: The name of the root in messages; by default the real one.
    """

    root: str
    path: str = ""
    only: str = ""
    shown: str = ""
    place: str = ""
    sizes: Mapping[str, int] = field(init=False)
    broken: Mapping[str, LarderError] = field(init=False)

    def __post_init__(self) -> None:
        """List the files. Raises SourceNotFound, AuthDenied, UnsafePath, TooManyFiles, Unreachable."""
        found: Iterable[tuple[str, os.stat_result | LarderError]] = (
            [(self.only, self._look())] if self.only else self._beneath.entries_below(self.path)
        )
        sizes, broken = dict[str, int](), dict[str, LarderError]()
        for name, seen in bounded(found, self._named(self.path)):
            if isinstance(seen, LarderError):
                broken[name] = seen
            elif stat.S_ISREG(seen.st_mode):
                sizes[name] = seen.st_size
        if not self.only and "config.json" not in {**sizes, **broken} and self._is_directory("config.json"):
            broken["config.json"] = directory_in_place_of("config.json")
        object.__setattr__(self, "sizes", MappingProxyType(sizes))
        object.__setattr__(self, "broken", MappingProxyType(broken))

    @property
    def _beneath(self) -> Beneath:
        return Beneath(self.root, self.place, self._named)

    def _named(self, path: str) -> str:
        """Return the name of a path below the root for messages."""
        if not self.shown:
            return f"{self.root.rstrip('/')}/{path}"
        rest = path.removeprefix(f"{self.path}/{self.only}" if self.only else self.path).strip("/")
        return f"{self.shown.rstrip('/')}/{rest}" if rest else self.shown

    def _is_directory(self, name: str) -> bool:
        """Return whether this directory exists; an empty one is not in the list of files."""
        try:
            descriptor = self._beneath.open(f"{self.path}/{name}")
        except LarderError:
            return False
        try:
            return stat.S_ISDIR(os.fstat(descriptor).st_mode)
        finally:
            os.close(descriptor)

    def _look(self) -> os.stat_result:
        """Return the stat of the single file, without looking at its siblings."""
        descriptor = self._beneath.open(f"{self.path}/{self.only}")
        try:
            return os.fstat(descriptor)
        finally:
            os.close(descriptor)

    def read(self, path: str, offset: int, length: int) -> bytes:
        """Return a part of a file."""
        descriptor = self._beneath.open(f"{self.path}/{path}")
        try:
            return os.pread(descriptor, length, offset)
        except OSError as error:
            raise Unreachable(f"{path} cannot be read: {error.strerror}") from error
        finally:
            os.close(descriptor)


class SourceFiles:
    """Files of a source, resolved once unless given. Parts are read by range, once more if a response breaks off.

    Raises MetadataMissing if the source has archives, whose contents cannot be read by range.
    """

    def __init__(self, source: Source, manifest: Manifest | None = None) -> None:
        self._source = source
        self.manifest = source.resolve() if manifest is None else manifest
        if archive := next((file for file in self.manifest.files if file.archive), None):
            raise MetadataMissing(archive.path, "", "is an archive, which can be read only after it is unpacked")
        self._files: dict[str, File] = {file.path: file for file in self.manifest.files}
        self.sizes = {path: file.size for path, file in self._files.items()}
        self.broken: Mapping[str, LarderError] = {}

    def read(self, path: str, offset: int, length: int) -> bytes:
        """Return a part of a file. Raises what `open` of the source raises."""
        file = self._files.get(path)
        if file is None:
            raise SourceNotFound(f"there is no {path} in {self.manifest.uri}")
        try:
            return self._read(file, offset, length)
        except Unreachable:
            return self._read(file, offset, length)

    def _read(self, file: File, offset: int, length: int) -> bytes:
        wanted = max(min(length, file.size - offset), 0)
        part, filled = bytearray(wanted), 0
        body = self._source.open(file, offset, wanted)
        try:
            while filled < wanted and (size := body.readinto(memoryview(part)[filled:])):
                filled += size
        finally:
            body.close()
        return bytes(part[:filled])
