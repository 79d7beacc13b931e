"""Compresses manifests for ConfigMaps: whole, or as a part of the manifest of all files, which is stored once."""

import base64
import hashlib
import zlib
from dataclasses import dataclass

import msgspec

from shared.errors import TooManyFiles
from shared.manifest import Manifest

WHOLE_KEY = "manifest.json.z"
PART_KEY = "part.json.z"
MAX_BYTES = 900 * 1024
_MAX_MANIFEST_BYTES = 16 * 2**20  # what a few KiB could inflate to; agents decode whole manifests
_SMALL_BYTES = 8 * 1024  # a manifest of this size costs no more than a part of another


class ManifestPart(msgspec.Struct, frozen=True):
    """A manifest as a part of a longer one: one bit per file, first file first."""

    listing: str
    revision: str
    allow_pickle: bool
    files: bytes


@dataclass(frozen=True, slots=True)
class PackedManifest:
    """The content of a ConfigMap; `listing` is the digest of the manifest that a part refers to."""

    digest: str
    uri: str
    revision: str
    key: str
    body: bytes
    listing: str = ""


def pack(manifest: Manifest) -> PackedManifest:
    """Return a whole manifest, compressed. Raises TooManyFiles."""
    body = manifest.encode()
    packed = zlib.compress(body, 9)
    if len(packed) > MAX_BYTES or len(body) > _MAX_MANIFEST_BYTES:
        raise TooManyFiles(
            f"the list of {len(manifest.files)} files takes {len(packed)} bytes compressed and {len(body)} "
            f"uncompressed, over the limits of {MAX_BYTES} and {_MAX_MANIFEST_BYTES}; select fewer files"
        )
    return PackedManifest(hashlib.sha256(body).hexdigest(), manifest.uri, manifest.revision, WHOLE_KEY, packed)


def pack_selected(selected: Manifest, listing: Manifest) -> list[PackedManifest]:
    """Return what to store for the files selected from all of a source, in the order to write it.

    A long selection is stored as a part, so that other selections of the same revision share the long manifest.
    Raises TooManyFiles.
    """
    found = pack(selected)
    if selected == listing or len(found.body) <= _SMALL_BYTES:
        return [found]
    try:
        whole = pack(listing)
    except TooManyFiles:
        return [found]
    return [whole, _part(found.digest, selected, listing, whole.digest)]


def unpack(text: str, digest: str) -> bytes:
    """Return the bytes with this digest. Raises ValueError, zlib.error."""
    return _verified(_inflated(text), digest)


def unpack_part(text: str) -> ManifestPart:
    """Return a part. Raises ValueError, zlib.error."""
    return msgspec.json.decode(_inflated(text), type=ManifestPart)


def apply_part(part: ManifestPart, listing: Manifest, digest: str) -> bytes:
    """Return the bytes of the manifest for this part of `listing`. Raises ValueError."""
    bits = part.files
    if len(bits) != _size_of(listing):
        raise ValueError(f"not a part of {part.listing}")
    files = tuple(f for i, f in enumerate(listing.files) if bits[i // 8] >> i % 8 & 1)
    selected = Manifest(listing.uri, part.revision, files, part.allow_pickle)
    return _verified(selected.encode(), digest)


def _part(digest: str, selected: Manifest, listing: Manifest, listing_digest: str) -> PackedManifest:
    paths, bits = {f.path for f in selected.files}, bytearray(_size_of(listing))
    for i, file in enumerate(listing.files):
        if file.path in paths:
            bits[i // 8] |= 1 << i % 8
    part = ManifestPart(listing_digest, selected.revision, selected.allow_pickle, bytes(bits))
    packed = zlib.compress(msgspec.json.encode(part), 9)
    return PackedManifest(digest, selected.uri, selected.revision, PART_KEY, packed, listing_digest)


def _size_of(listing: Manifest) -> int:
    return (len(listing.files) + 7) // 8


def _inflated(text: str) -> bytes:
    return zlib.decompressobj().decompress(base64.b64decode(text, validate=True), _MAX_MANIFEST_BYTES)


def _verified(body: bytes, digest: str) -> bytes:
    if hashlib.sha256(body).hexdigest() != digest:
        raise ValueError(f"not the bytes of {digest}")
    return body
