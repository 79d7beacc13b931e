"""What the headers of an object vouch for."""

import base64
import binascii
import re
from collections.abc import Mapping

from shared.manifest import File

_MD5 = re.compile(r"[0-9a-f]{32}")
_SHA256_BYTES = 32


def file_of(path: str, headers: Mapping[str, str]) -> File:
    """Return the file that an answer to HEAD describes."""
    return File(path, int(headers["Content-Length"]), digest_of(headers), headers.get("ETag") or "")


def digest_of(headers: Mapping[str, str]) -> str:
    """Return the digest that S3 keeps of a whole object: its SHA-256, else an ETag that is an MD5, else "".

    The ETag of an object in several parts has a `-`; one encrypted with a customer's key or by KMS is no MD5 of the
    content though it looks like one.
    """
    checksum = headers.get("x-amz-checksum-sha256") or ""
    if (headers.get("x-amz-checksum-type") or "FULL_OBJECT") == "FULL_OBJECT" and (sha256 := _decoded(checksum)):
        return f"sha256:{sha256}"
    encrypted = (headers.get("x-amz-server-side-encryption") or "").startswith("aws:kms")
    by_customer = headers.get("x-amz-server-side-encryption-customer-algorithm")
    etag = (headers.get("ETag") or "").strip('"').lower()
    return f"md5:{etag}" if _MD5.fullmatch(etag) and not encrypted and not by_customer else ""


def _decoded(checksum: str) -> str:
    try:
        raw = base64.b64decode(checksum, validate=True)
    except binascii.Error:
        return ""
    return raw.hex() if len(raw) == _SHA256_BYTES else ""
