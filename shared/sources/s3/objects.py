"""The digests that the headers of an object provide."""

import re
from collections.abc import Mapping

from shared.errors import Unreachable
from shared.manifest import File
from shared.sources.checksums import best_digest
from shared.sources.prefix_keys import size_of

_CHECKSUMS = ("sha256", "crc64nvme", "crc32c", "crc32")
_LONGEST_TAG = 256  # those of S3 have at most 40
MD5 = re.compile(r"[0-9a-f]{32}")


def file_of(path: str, headers: Mapping[str, str]) -> File:
    """Return the file that a HEAD response describes; raises Unreachable if it has no length or an endless ETag."""
    tag = headers.get("ETag") or ""
    if len(tag) > _LONGEST_TAG:  # a listing keeps those of all objects in memory
        raise Unreachable(f"the store sent an ETag of {len(tag)} characters for {path!r}; check the endpoint")
    return File(path, size_of(headers, path), digest_of(headers), tag)


def digest_of(headers: Mapping[str, str]) -> str:
    """Return the digest of a whole object: a checksum, else an ETag that is an MD5, else "".

    Checksums over the checksums of parts do not count, nor does the ETag of a multipart object, which has a `-`: see
    `s3.multipart`.
    """
    is_whole = (headers.get("x-amz-checksum-type") or "FULL_OBJECT") == "FULL_OBJECT"
    checksums = {name: headers.get(f"x-amz-checksum-{name}") or "" for name in _CHECKSUMS}
    if is_whole and (digest := best_digest(checksums)):
        return digest
    tag = content_tag(headers)
    return f"md5:{tag}" if MD5.fullmatch(tag) else ""


def content_tag(headers: Mapping[str, str]) -> str:
    """Return the ETag without quotes; "" if it does not depend on the content.

    The ETag of an object encrypted with a customer key or by KMS is not an MD5, although it looks like one.
    """
    encrypted = (headers.get("x-amz-server-side-encryption") or "").startswith("aws:kms")
    by_customer = headers.get("x-amz-server-side-encryption-customer-algorithm")
    return "" if encrypted or by_customer else (headers.get("ETag") or "").strip('"').lower()
