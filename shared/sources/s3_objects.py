"""What the headers of an object vouch for."""

import re
from collections.abc import Mapping

from shared.manifest import File
from shared.sources.checksums import base64_digest

_MD5 = re.compile(r"[0-9a-f]{32}")


def file_of(path: str, headers: Mapping[str, str]) -> File:
    """Return the file that an answer to HEAD describes."""
    return File(path, int(headers["Content-Length"]), digest_of(headers), headers.get("ETag") or "")


def digest_of(headers: Mapping[str, str]) -> str:
    """Return the digest that S3 keeps of a whole object: its SHA-256, else an ETag that is an MD5, else "".

    The ETag of an object in several parts has a `-`; one encrypted with a customer's key or by KMS is no MD5 of the
    content though it looks like one.
    """
    checksum = headers.get("x-amz-checksum-sha256") or ""
    is_whole = (headers.get("x-amz-checksum-type") or "FULL_OBJECT") == "FULL_OBJECT"
    if is_whole and (sha256 := base64_digest("sha256", checksum)):
        return sha256
    encrypted = (headers.get("x-amz-server-side-encryption") or "").startswith("aws:kms")
    by_customer = headers.get("x-amz-server-side-encryption-customer-algorithm")
    etag = (headers.get("ETag") or "").strip('"').lower()
    return f"md5:{etag}" if _MD5.fullmatch(etag) and not encrypted and not by_customer else ""
