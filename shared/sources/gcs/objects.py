"""Decodes object descriptions of the JSON API of Google Cloud Storage."""

from typing import Annotated, TypeVar

import msgspec

from shared.decode_errors import DECODE_ERRORS
from shared.errors import InvalidURI, Unreachable
from shared.http.client import Response
from shared.manifest import File
from shared.sources.checksums import best_digest

FIELDS = "name,size,md5Hash,crc32c,generation,contentEncoding"
_LONGEST_PAGE_BYTES = 16 * 1024 * 1024


class GcsObject(msgspec.Struct, frozen=True, rename="camel"):
    """An object as the API describes it; numbers are strings."""

    name: str
    size: Annotated[int, msgspec.Meta(ge=0, lt=2**62)] = 0
    md5_hash: str = ""
    crc32c: str = ""
    generation: str = ""
    content_encoding: str = ""


class GcsPage(msgspec.Struct, frozen=True, rename="camel"):
    """A page of a listing, and the token of the next page; empty on the last."""

    items: tuple[GcsObject, ...] = ()
    next_page_token: str = ""


_Answer = TypeVar("_Answer", GcsObject, GcsPage)


def decoded(response: Response, kind: type[_Answer]) -> _Answer:
    """Decode a successful response; raises Unreachable."""
    body = response.read_all(_LONGEST_PAGE_BYTES)
    try:
        return msgspec.json.decode(body, type=kind, strict=False)
    except DECODE_ERRORS as error:
        raise Unreachable(
            f"{response.host} sent a response that is not valid for Google Cloud Storage: {error}; check the endpoint"
        ) from error


def file_of(path: str, found: GcsObject, bucket: str) -> File:
    """Return the file of an object. Every object has a CRC-32C; a composed one has no MD5."""
    if found.content_encoding == "gzip":
        raise InvalidURI(
            f"gs://{bucket}/{found.name} is stored with Content-Encoding gzip, so it would not arrive as listed; "
            "upload it without that encoding"
        )
    return File(path, found.size, best_digest({"crc32c": found.crc32c, "md5": found.md5_hash}), found.generation)
