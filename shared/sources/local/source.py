"""The source for `local://`: files already on the machine, below directories that the administrator configured."""

import os
import stat
from typing import Literal

from shared.errors import InvalidURI, SourceChanged, SourceNotFound, Unreachable
from shared.manifest import File, Manifest, build_manifest
from shared.sources.listing_limits import bounded
from shared.sources.local.beneath import Beneath
from shared.sources.port import Body, Credentials
from shared.sources.settings import SourceSettings
from shared.uri.model_uri import LocalUri, ModelUri


class LocalSource:
    """A file, or a directory with all below it. Without digests, size and modification time identify content."""

    shares_rights: Literal[True] = True

    def __init__(self, uri: ModelUri, credentials: Credentials, settings: SourceSettings) -> None:
        del credentials  # access is governed by the permissions of the file system alone
        if not isinstance(uri, LocalUri):
            raise InvalidURI(f"{uri} is not a local:// URI")
        self._uri = uri
        root = _root_of(uri.path, settings.local_roots)
        self._beneath, self._path = Beneath(root), uri.path[len(root) :].strip("/")

    def resolve(self) -> Manifest:
        """List the file, or everything below the directory; the revision is made from names, sizes and times."""
        descriptor = self._beneath.open(self._path)
        try:
            found = os.fstat(descriptor)
        finally:
            os.close(descriptor)
        if stat.S_ISDIR(found.st_mode):
            listed = bounded(self._beneath.files_below(self._path), str(self._uri))
            files = [File(path, seen.st_size, etag=_tag(seen)) for path, seen in listed]
        else:
            files = [File(self._path.rpartition("/")[2], found.st_size, etag=_tag(found))]
        if not files:
            raise SourceNotFound(f"{self._uri} has no files{self._directories()}; correct the URI")
        return build_manifest(str(self._uri), "", files)

    def _directories(self) -> str:
        """Return a phrase for directories found where files were expected; "" if there are none."""
        descriptor = self._beneath.open(self._path)
        try:
            names = sorted(os.listdir(descriptor))  # noqa: PTH208 - a path cannot be made of a descriptor
        finally:
            os.close(descriptor)
        if not names:
            return ""
        return f", only directories: {', '.join(map(repr, names[:3]))}{', ...' if len(names) > 3 else ''}"  # noqa: PLR2004 - as shown

    def open(self, file: File, offset: int = 0, length: int | None = None) -> Body:
        """Open a part of a file, provided that size and modification time are those that were listed."""
        descriptor = self._open(file)
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size != file.size or file.etag not in ("", _tag(found)):
            os.close(descriptor)
            raise SourceChanged(f"{file.path!r} of {self._uri} changed since it was listed; it is listed again")
        return LocalBody(
            descriptor, file.path, offset, file.size if length is None else min(file.size, offset + length)
        )

    def close(self) -> None:
        """Do nothing: no descriptor is kept."""

    def _open(self, file: File) -> int:
        if self._path.rpartition("/")[2] == file.path:  # the URI may name the file itself
            descriptor = self._beneath.open(self._path)
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                return descriptor
            os.close(descriptor)
        return self._beneath.open(f"{self._path}/{file.path}")


class LocalBody:
    """A part of an open file, from `position` up to `end`."""

    skips: bool = False

    def __init__(self, descriptor: int, path: str, position: int, end: int) -> None:
        self._descriptor, self._path, self._position, self._end = descriptor, path, position, end

    def skip(self, max_bytes: int) -> int:
        """Return 0, because any part can be read directly."""
        del max_bytes
        return 0

    def readinto(self, buffer: memoryview) -> int:
        """Fill the start of the buffer; 0 at the end. Raises Unreachable."""
        target = buffer[: max(self._end - self._position, 0)]
        if not target:
            return 0
        try:
            size = os.preadv(self._descriptor, [target], self._position)
        except OSError as error:
            raise Unreachable(f"{self._path!r} cannot be read: {error.strerror}") from error
        if not size:
            raise Unreachable(f"{self._path!r} was truncated while it was read; it is listed again")
        self._position += size
        return size

    def close(self) -> None:
        """Close the file."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def _root_of(path: str, roots: tuple[str, ...]) -> str:
    """Return the longest root that contains a path; raises InvalidURI."""
    stripped = (root.rstrip("/") for root in roots)
    above = [root for root in stripped if path == root or path.startswith(f"{root}/")]
    if not above:
        raise InvalidURI(
            f"local://{path} is not below a directory that may be read on this machine; ask the administrator to add "
            f"one to LARDER_LOCAL_ROOTS (now {', '.join(roots) or 'empty'})"
        )
    return max(above, key=len)


def _tag(found: os.stat_result) -> str:
    return f'"{found.st_mtime_ns:x}-{found.st_size:x}"'
