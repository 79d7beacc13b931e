"""When two files of manifests are the same bytes, without looking at them."""

import hashlib
from collections.abc import Iterable
from functools import lru_cache

from shared.errors import InvalidURI
from shared.manifest import File, Manifest
from shared.uri import HfUri, parse_uri


@lru_cache(maxsize=64)
def source_key(uri: str) -> str:
    """Return what names the place that serves a URI: a hub's repository whatever the revision, else the URI."""
    try:
        parsed = parse_uri(uri)
    except InvalidURI:
        return uri
    return f"hf://{parsed.repo}" if isinstance(parsed, HfUri) else str(parsed)


def content_key(source: str, revision: str, file: File) -> str:
    """Return the hex name of a file's content at its source.

    Equal names mean equal bytes as far as the publisher says: his digest; else the entity tag of the path; else the
    path in the same revision. Equal digests of different sources have different names on purpose: a source vouches
    only for what it served itself.
    """
    if file.digest:
        said = ("digest", file.digest)
    elif file.etag:
        said = ("etag", f"{file.path}\0{file.etag}")
    else:
        said = ("path", f"{revision}\0{file.path}")
    return hashlib.sha256("\0".join((source, str(file.size), *said)).encode()).hexdigest()


def keys_by_path(uri: str, revision: str, files: Iterable[File]) -> dict[str, str]:
    """Return the name of each file's content."""
    source = source_key(uri)
    return {file.path: content_key(source, revision, file) for file in files}


def distinct_files(manifest: Manifest) -> dict[str, File]:
    """Return one file for each distinct content, by its name, in the order of the manifest."""
    keys = keys_by_path(manifest.uri, manifest.revision, manifest.files)
    found: dict[str, File] = {}
    for file in manifest.files:
        found.setdefault(keys[file.path], file)
    return found
