"""What a store keeps for an object uploaded in parts: a digest over the digests of its parts."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus

from shared.http.heads import LENGTH
from shared.part_digests import fits, value_of
from shared.sources.checksums import base64_digest
from shared.sources.s3.objects import MD5, content_tag

# In the order of `checksums`. A CRC-64/NVME always covers the whole object.
_CHECKSUMS = ("sha256", "crc32c", "crc32")
_COUNT = re.compile(r"[1-9][0-9]{0,4}")
_MAX_PARTS = 10_000  # the limit of S3


@dataclass(frozen=True, slots=True)
class MultipartDigest:
    """The hex digest over the digests of `count` parts; the lengths of the parts are unknown."""

    algorithm: str
    digest: str
    count: int


def multipart_digest(headers: Mapping[str, str]) -> MultipartDigest | None:
    """Return what a HEAD response says about parts; None if nothing can be checked against it.

    An ETag with a count is an MD5 over MD5s under the same conditions as one without (`s3.objects`), unless the count
    is 1: some servers send random tags of that form.
    """
    for digest, count in _part_digests(headers):
        if digest and _COUNT.fullmatch(count) and int(count) <= _MAX_PARTS:
            algorithm, _, value = digest.partition(":")
            return MultipartDigest(algorithm, value, int(count))
    return None


def _part_digests(headers: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield digests over parts with their counts, best first; "" for a malformed digest."""
    if (headers.get("x-amz-checksum-type") or "COMPOSITE") == "COMPOSITE":
        for algorithm in _CHECKSUMS:
            text, _, count = (headers.get(f"x-amz-checksum-{algorithm}") or "").rpartition("-")
            yield base64_digest(algorithm, text), count
    tag, _, count = content_tag(headers).rpartition("-")
    if MD5.fullmatch(tag) and count != "1":
        yield f"md5:{tag}", count


def part_length(found: MultipartDigest, status: int, headers: Mapping[str, str]) -> int:
    """Return the bytes of a part from the HEAD response for it; 0 if unknown.

    If the response has a count of parts, it must agree. For an ETag it is required: some stores put other things than
    MD5s into ETags of that form, and few of them answer for single parts as S3 does.
    """
    length = headers.get("Content-Length") or ""
    count = headers.get("x-amz-mp-parts-count") or ("" if found.algorithm == "md5" else str(found.count))
    is_part = status in (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT) and count == str(found.count)
    return int(length) if is_part and LENGTH.fullmatch(length) else 0


def digest_by_parts(found: MultipartDigest, size_bytes: int, length_of: Callable[[int], int]) -> str:
    """Return the digest for `File.digest`; "" if the parts differ in length or their length is unknown.

    `length_of` returns the bytes of a part by number, or 0 if unknown. One or two parts follow from the first. With
    more, the last part must also be the remainder, because many writers cut parts where their own buffers end.
    """
    first = length_of(1)
    if not fits(size_bytes, found.count, first):
        return ""
    if found.count > 2 and length_of(found.count) != size_bytes - (found.count - 1) * first:  # noqa: PLR2004 - see above
        return ""
    return f"{found.algorithm}-parts:{value_of(found.digest, found.count, first)}"
