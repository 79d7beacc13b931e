"""Decodes blob descriptions of Azure Blob Storage: pages of a listing in XML, and headers."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote
from xml.etree import ElementTree as ET

from shared.errors import Unreachable
from shared.http.heads import LENGTH
from shared.manifest import File
from shared.sources.checksums import base64_digest
from shared.sources.plain_xml import plain_xml
from shared.sources.prefix_keys import size_of


@dataclass(frozen=True, slots=True)
class Blob:
    """A blob: its full name, its size in bytes, its quoted entity tag, and its MD5 in base64 ("" without one)."""

    name: str
    size: int
    etag: str
    md5: str
    is_directory: bool = False


@dataclass(frozen=True, slots=True)
class BlobPage:
    """A page of a listing; `next_marker` names the next page and is empty on the last."""

    blobs: tuple[Blob, ...]
    next_marker: str


def parse_page(body: bytes, host: str) -> BlobPage:
    """Parse a page of a listing; raises Unreachable if it is malformed. Entities are refused: stores send none."""
    try:
        root = ET.fromstring(plain_xml(body))  # noqa: S314 - without a document type there is nothing to expand
        blobs = tuple(_blob_of(element) for element in root.iterfind("Blobs/Blob"))
    except (ValueError, ET.ParseError) as error:
        raise Unreachable(
            f"{host} sent a listing that is not valid for Azure Blob Storage: {error}; check the endpoint"
        ) from error
    return BlobPage(blobs, root.findtext("NextMarker") or "")


def _blob_of(element: ET.Element) -> Blob:
    name = element.find("Name")
    if name is None or not name.text:
        raise ValueError("a blob has no name")
    properties = element.find("Properties")
    fields = {child.tag: child.text or "" for child in (properties if properties is not None else ())}
    etag = fields.get("Etag", "").strip('"')
    is_directory = fields.get("ResourceType") == "directory" or (
        (element.findtext("Metadata/hdi_isfolder") or "").lower() == "true"
    )
    text = unquote(name.text) if name.get("Encoded") == "true" else name.text
    size = fields.get("Content-Length") or "0"
    if not LENGTH.fullmatch(size):
        raise ValueError("a blob has no valid length")
    return Blob(text, int(size), f'"{etag}"' if etag else "", fields.get("Content-MD5", ""), is_directory)


def blob_of_headers(name: str, headers: Mapping[str, str]) -> Blob:
    """Return the blob that a HEAD response describes; raises Unreachable if it has no length."""
    folder = headers.get("x-ms-meta-hdi_isfolder", "").lower() == "true"
    is_directory = folder or headers.get("x-ms-resource-type") == "directory"
    return Blob(name, size_of(headers, name), headers.get("ETag", ""), headers.get("Content-MD5", ""), is_directory)


def file_of(path: str, blob: Blob) -> File:
    """Return the file of a blob. A blob uploaded in blocks may have no MD5."""
    return File(path, blob.size, base64_digest("md5", blob.md5), blob.etag)
