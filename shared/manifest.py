"""The list of files of a model revision: resolved once, fetched by every node."""

import hashlib
from collections.abc import Iterable

import msgspec

from shared.errors import TooManyFiles, UnsafePath
from shared.paths import check_paths

_MAX_BYTES = 2**62  # the API server's integers are signed 64-bit


class File(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One file of a source.

    Args:
        path: The path relative to the model; for an archive no more than a name.
        size: The size in bytes.
        digest: The publisher's digest: an algorithm (`sha256`, `git-sha1` of a git blob, `md5`, `crc64nvme`,
            `crc32c` or `crc32`), a colon and hex digits; or the algorithm with `-parts`, a colon and a value of
            `part_digests`. Empty if there is none, so that only the size can be checked.
        etag: The entity tag or date that a fetch must find unchanged; empty if there is none or the URL names fixed
            content.
        archive: The format of an archive (`tar`, `tar.gz`, `zip`) that a node unpacks; empty for other
            files.
    """

    path: str
    size: int
    digest: str = ""
    etag: str = ""
    archive: str = ""


class Manifest(msgspec.Struct, frozen=True, omit_defaults=True):
    """The files of one revision, sorted by path. `uri` is canonical and names the revision if its scheme can.

    Unless `allow_pickle` is set, a node commits the files only if none of them can be a pickle.
    """

    uri: str
    revision: str
    files: tuple[File, ...]
    allow_pickle: bool = True

    @property
    def size_bytes(self) -> int:
        """The sum of the file sizes."""
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
    if (size_bytes := sum(f.size for f in listed)) > _MAX_BYTES:
        raise TooManyFiles(f"{uri} claims to have {size_bytes} bytes, more than any disk has; correct it at the source")
    check_files(listed)
    if not revision:
        body = msgspec.json.encode([(f.path, f.size, f.digest, f.etag, *filter(None, [f.archive])) for f in listed])
        revision = hashlib.sha256(uri.encode() + b"\0" + body).hexdigest()[:40]
    return Manifest(uri, revision, listed)


def decode_manifest(body: bytes, digest: str) -> Manifest:
    """Decode a manifest received from elsewhere and check its digest and paths; raises ValueError, UnsafePath."""
    if hashlib.sha256(body).hexdigest() != digest:
        raise ValueError(f"the manifest does not have the digest {digest}; it was damaged in transit")
    manifest = msgspec.json.decode(body, type=Manifest)
    if "/" in manifest.revision or manifest.revision.startswith("."):
        raise UnsafePath(f"revision {manifest.revision!r} is not a directory name")
    check_files(manifest.files)
    return manifest


def check_files(files: Iterable[File]) -> None:
    """Raise UnsafePath unless all files can coexist below one directory, whatever their archives contain."""
    listed = list(files)
    check_paths([f.path for f in listed], {f.path for f in listed if f.archive})
