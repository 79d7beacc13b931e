"""What the headers of an object vouch for."""

import re
from collections.abc import Mapping

from shared.manifest import File
from shared.sources.checksums import best_digest
from shared.sources.prefix_keys import size_of

_CHECKSUMS = ("sha256", "crc64nvme", "crc32c", "crc32")
MD5 = re.compile(r"[0-9a-f]{32}")


def file_of(path: str, headers: Mapping[str, str]) -> File:
    """Return the file that an answer to HEAD describes; raises Unreachable where it has no length."""
    return File(path, size_of(headers, path), digest_of(headers), headers.get("ETag") or "")


def digest_of(headers: Mapping[str, str]) -> str:
    """Return the digest that S3 keeps of a whole object: a checksum, else an ETag that is an MD5, else "".

    A checksum may be one of the parts' checksums, and the ETag of an object in several parts has a `-`: see `s3_parts`.
    """
    is_whole = (headers.get("x-amz-checksum-type") or "FULL_OBJECT") == "FULL_OBJECT"
    checksums = {name: headers.get(f"x-amz-checksum-{name}") or "" for name in _CHECKSUMS}
    if is_whole and (digest := best_digest(checksums)):
        return digest
    tag = content_tag(headers)
    return f"md5:{tag}" if MD5.fullmatch(tag) else ""


def content_tag(headers: Mapping[str, str]) -> str:
    """Return the ETag without quotes; "" where it follows from something else than the content.

    That of an object which is encrypted with a customer's key or by KMS is no MD5 though it looks like one.
    """
    encrypted = (headers.get("x-amz-server-side-encryption") or "").startswith("aws:kms")
    by_customer = headers.get("x-amz-server-side-encryption-customer-algorithm")
    return "" if encrypted or by_customer else (headers.get("ETag") or "").strip('"').lower()
