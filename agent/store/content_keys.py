"""Names for file contents: equal names mean equal bytes, without reading them."""

import hashlib
from collections.abc import Container, Iterable
from functools import lru_cache

from shared.errors import InvalidURI
from shared.manifest import File, Manifest
from shared.uri.model_uri import HfUri, parse_uri

_ARCHIVE = "out of archive "  # URIs have no blanks


@lru_cache(maxsize=64)
def source_key(uri: str) -> str:
    """Return the identity of a URI's source: a hub's repository regardless of revision, otherwise the URI."""
    try:
        parsed = parse_uri(uri)
    except InvalidURI:
        return uri
    return f"hf://{parsed.repo}" if isinstance(parsed, HfUri) else str(parsed)


def content_key(source: str, revision: str, file: File) -> str:
    """Return the name of a file's content at its source in hex; for archive members, after the archive's name and `-`.

    The publisher vouches that equal names mean equal bytes. The name comes from the published digest, unless that is a
    short checksum; else from the entity tag of the path; else from the path in the same revision. Equal digests from
    different sources get different names on purpose: a source vouches only for what it served itself.
    """
    if file.digest and not file.digest.startswith("crc"):
        published = ("digest", file.digest)
    elif file.etag:
        published = ("etag", f"{file.path}\0{file.etag}")
    else:
        published = ("path", f"{revision}\0{file.path}")
    key = hashlib.sha256("\0".join((source, str(file.size), *published)).encode()).hexdigest()
    return f"{source.removeprefix(_ARCHIVE)}-{key}" if source.startswith(_ARCHIVE) else key


def keys_by_path(uri: str, revision: str, files: Iterable[File]) -> dict[str, str]:
    """Return the content name of each file, by path."""
    source = source_key(uri)
    return {file.path: content_key(source, revision, file) for file in files}


def members_manifest(archive: str, files: Iterable[File]) -> Manifest:
    """Return the files of an archive as a separate manifest; `archive` is the archive's content name."""
    return Manifest(f"{_ARCHIVE}{archive}", "", tuple(files))


def belongs_to(key: str, keys: Container[str]) -> bool:
    """Return whether the content, or the archive it comes from, is one of these."""
    return key in keys or key.partition("-")[0] in keys
