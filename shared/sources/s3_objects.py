"""What the headers of an object vouch for."""

import re
from collections.abc import Mapping

from shared.errors import Unreachable
from shared.manifest import File
from shared.sources.checksums import best_digest
from shared.sources.heads import LENGTH

_CHECKSUMS = ("sha256", "crc64nvme", "crc32c", "crc32")
_MD5 = re.compile(r"[0-9a-f]{32}")


def file_of(path: str, headers: Mapping[str, str]) -> File:
    """Return the file that an answer to HEAD describes; raises Unreachable where it has no length."""
    text = headers.get("Content-Length") or ""
    if not LENGTH.fullmatch(text):
        raise Unreachable(f"the store does not say how long {path!r} is (Content-Length); it is asked again")
    return File(path, int(text), digest_of(headers), headers.get("ETag") or "")


def digest_of(headers: Mapping[str, str]) -> str:
    """Return the digest that S3 keeps of a whole object: a checksum, else an ETag that is an MD5, else "".

    A checksum may be one of the parts' checksums. The ETag of an object in several parts has a `-`; one encrypted with
    a customer's key or by KMS is no MD5 of the content though it looks like one.
    """
    is_whole = (headers.get("x-amz-checksum-type") or "FULL_OBJECT") == "FULL_OBJECT"
    checksums = {name: headers.get(f"x-amz-checksum-{name}") or "" for name in _CHECKSUMS}
    if is_whole and (digest := best_digest(checksums)):
        return digest
    encrypted = (headers.get("x-amz-server-side-encryption") or "").startswith("aws:kms")
    by_customer = headers.get("x-amz-server-side-encryption-customer-algorithm")
    etag = (headers.get("ETag") or "").strip('"').lower()
    return f"md5:{etag}" if _MD5.fullmatch(etag) and not encrypted and not by_customer else ""
