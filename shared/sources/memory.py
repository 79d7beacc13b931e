"""The in-memory twin of a source, with injectable faults."""

import copy
import hashlib
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from shared.errors import AuthDenied, LarderError, SourceChanged, SourceNotFound, Unreachable
from shared.manifest import File, Manifest, build_manifest
from shared.sources.port import ANONYMOUS, Body, Credentials, Source
from shared.sources.schemes import OpenSource
from shared.sources.settings import SourceSettings
from shared.uri.model_uri import ModelUri


@dataclass(slots=True)
class MemoryFaults:
    """Faults to inject; may be changed at any time, even while bodies are being read.

    Args:
        truncate_at: By path, the file position at which every body breaks off with Unreachable.
        corrupt: Paths whose first byte arrives flipped.
        on_open: Errors raised by the next opens, one each.
        changed: Whether every open raises SourceChanged.
        before_read: Called with (path, position) before each read; may block or raise.
        max_bytes: The most bytes that one `readinto` returns; None for no limit.
    """

    truncate_at: dict[str, int] = field(default_factory=dict)
    corrupt: set[str] = field(default_factory=set)
    on_open: list[LarderError] = field(default_factory=list)
    changed: bool = False
    before_read: Callable[[str, int], None] | None = None
    max_bytes: int | None = None


class MemorySource:
    """Files from a dict.

    `token` is the HF_TOKEN that it requires, and `archives` maps the paths of archives to be unpacked to their format.
    `served_bytes` counts the bytes that its bodies returned.
    """

    def __init__(
        self,
        files: Mapping[str, bytes],
        *,
        repo: str = "test/model",
        token: str = "",
        credentials: Credentials = ANONYMOUS,
        digests: bool = True,
        archives: Mapping[str, str] | None = None,
    ) -> None:
        self.files, self.archives = dict(files), dict(archives or {})
        self.faults = MemoryFaults()
        self._served = [0]
        self._repo, self._token, self._credentials, self._digests = repo, token, credentials, digests
        self._lock = threading.Lock()

    def resolve(self) -> Manifest:
        """List the present files; the revision is made from their contents."""
        self._check_token()
        if not self.files:
            raise SourceNotFound(f"hf://{self._repo} has no files")
        files = [
            File(path, len(body), self._digest_of(body), archive=self.archives.get(path, ""))
            for path, body in self.files.items()
        ]
        seed = repr(sorted((f.path, hashlib.sha1(self.files[f.path]).hexdigest()) for f in files))  # noqa: S324 - an id
        revision = hashlib.sha1(seed.encode()).hexdigest()  # noqa: S324 - it stands for a git commit id
        return build_manifest(f"hf://{self._repo}@{revision}", revision, files)

    def open(self, file: File, offset: int = 0, length: int | None = None) -> Body:
        """Open a part of a file, or fail as `faults` says."""
        self._check_token()
        with self._lock:
            if self.faults.on_open:
                raise self.faults.on_open.pop(0)
        body = self.files.get(file.path)
        if body is None:
            raise SourceNotFound(f"hf://{self._repo} has no file {file.path!r}")
        if self.faults.changed or len(body) != file.size:
            raise SourceChanged(f"{file.path!r} of hf://{self._repo} changed since it was resolved")
        end = file.size if length is None else min(file.size, offset + length)
        return MemoryBody(self, file.path, offset, end)

    def close(self) -> None:
        """Do nothing: there are no connections."""

    def with_credentials(self, credentials: Credentials) -> "MemorySource":
        """Return a view with other credentials on the same files and faults."""
        view = copy.copy(self)
        view._credentials = credentials  # noqa: SLF001 - another instance of this class
        return view

    @property
    def served_bytes(self) -> int:
        """The number of bytes that all bodies returned, including those of views with other credentials."""
        return self._served[0]

    def count(self, size_bytes: int) -> None:
        """Add to `served_bytes`; called by bodies."""
        with self._lock:
            self._served[0] += size_bytes

    def _digest_of(self, body: bytes) -> str:
        return f"sha256:{hashlib.sha256(body).hexdigest()}" if self._digests else ""

    def _check_token(self) -> None:
        if self._token and self._credentials.values.get("HF_TOKEN") != self._token:
            raise AuthDenied(f"hf://{self._repo} refuses these credentials; put a valid HF_TOKEN into the Secret")


class MemoryRepository(MemorySource):
    """A source whose files all have the same readers."""

    shares_rights: Literal[True] = True


class MemoryBody:
    """A part of a file in memory, from `position` up to `end`."""

    skips: bool = False

    def __init__(self, source: MemorySource, path: str, position: int, end: int) -> None:
        self._source, self._path, self._position, self._end = source, path, position, end

    def skip(self, max_bytes: int) -> int:
        """Return 0, because any part can be read directly."""
        del max_bytes
        return 0

    def readinto(self, buffer: memoryview) -> int:
        """Copy the remaining bytes into the buffer, as far as the faults permit."""
        faults = self._source.faults
        if faults.before_read is not None:
            faults.before_read(self._path, self._position)
        stop = min(self._end, faults.truncate_at.get(self._path, self._end))
        size = max(0, min(len(buffer), stop - self._position, faults.max_bytes or len(buffer)))
        if size == 0:
            return self._at_end()
        part = bytearray(self._source.files[self._path][self._position : self._position + size])
        if self._path in faults.corrupt and self._position == 0:
            part[0] ^= 0xFF
        buffer[:size] = part
        self._position += size
        self._source.count(size)
        return size

    def close(self) -> None:
        """Do nothing: there is no connection to return."""

    def _at_end(self) -> int:
        if self._position < self._end:
            raise Unreachable(f"{self._path!r} ended early, at byte {self._position} of {self._end}")
        return 0


def open_from(sources: Mapping[str, MemorySource]) -> OpenSource:
    """Return a stand-in for `schemes.open_source`: sources by repository (`org/name`) or by canonical URI."""

    def open_source(uri: ModelUri, credentials: Credentials, settings: SourceSettings) -> Source:
        del settings
        key = getattr(uri, "repo", str(uri))
        source = sources.get(str(uri)) or sources.get(key)
        if source is None:
            raise SourceNotFound(f"there is no {uri}")
        return source.with_credentials(credentials)

    return open_source
