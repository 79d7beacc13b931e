"""The list of files that a revision of a model consists of: resolved once, fetched by every node."""

import hashlib
from collections.abc import Iterable

import msgspec

from shared.errors import TooManyFiles, UnsafePath
from shared.paths import check_paths

_MOST_BYTES = 2**62  # the API server's numbers end soon after


class File(msgspec.Struct, frozen=True, omit_defaults=True):
    """One file of a source.

    `digest` is the publisher's: an algorithm (`sha256`, `git-sha1` of a git blob, `md5`, `crc64nvme`, `crc32c` or
    `crc32`), a colon and hex digits, or `-parts`, a colon and what `part_digests` tells; empty where there is none and
    only the size can be checked. `etag` is the entity tag, or the date, that a fetch must meet again; empty where there
    is none or the URL itself names fixed content. `archive` says how an archive is packed (`tar`, `tar.gz`, `zip`)
    whose files a node has in its place; `path` is then no more than a name. It is empty for all else.
    """

    path: str
    size: int
    digest: str = ""
    etag: str = ""
    archive: str = ""


class Manifest(msgspec.Struct, frozen=True, omit_defaults=True):
    """The files of one revision, sorted by path. `uri` is canonical and names the revision where its scheme can.

    Without `allow_pickle` a node commits the files only if none of them can be a pickle.
    """

    uri: str
    revision: str
    files: tuple[File, ...]
    allow_pickle: bool = True

    @property
    def size_bytes(self) -> int:
        """The sum of the files' sizes."""
        return sum(f.size for f in self.files)

    def encode(self) -> bytes:
        """Return the canonical bytes: equal manifests encode equally."""
        return msgspec.json.encode(self, order="deterministic")

    @property
    def digest(self) -> str:
        """The SHA-256 of the canonical bytes, in hex."""
        return hashlib.sha256(self.encode()).hexdigest()


def build_manifest(uri: str, revision: str, files: Iterable[File]) -> Manifest:
    """Return the manifest; an empty `revision` becomes the digest of the list. Raises UnsafePath, TooManyFiles."""
    listed = tuple(sorted(files, key=lambda f: f.path))
    if (size_bytes := sum(f.size for f in listed)) > _MOST_BYTES:
        raise TooManyFiles(f"{uri} says that it has {size_bytes} bytes, more than any disk; correct it at the source")
    check_files(listed)
    if not revision:
        body = msgspec.json.encode([(f.path, f.size, f.digest, f.etag, *filter(None, [f.archive])) for f in listed])
        revision = hashlib.sha256(uri.encode() + b"\0" + body).hexdigest()[:40]
    return Manifest(uri, revision, listed)


def decode_manifest(body: bytes, digest: str) -> Manifest:
    """Return a manifest that came from elsewhere, its digest and its paths checked; ValueError, UnsafePath."""
    if hashlib.sha256(body).hexdigest() != digest:
        raise ValueError(f"the manifest's bytes do not have the digest {digest}; it was damaged on its way")
    manifest = msgspec.json.decode(body, type=Manifest)
    if "/" in manifest.revision or manifest.revision.startswith("."):
        raise UnsafePath(f"revision {manifest.revision!r} is not a directory name")
    check_files(manifest.files)
    return manifest


def check_files(files: Iterable[File]) -> None:
    """Raise UnsafePath unless all can stand together below one directory, whatever the archives among them hold."""
    listed = list(files)
    check_paths([f.path for f in listed], {f.path for f in listed if f.archive})
