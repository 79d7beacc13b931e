"""What a store keeps of an object that was uploaded in parts: a digest over the digests of these."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus

from shared.http.heads import LENGTH
from shared.part_digests import fits, value_of
from shared.sources.checksums import base64_digest
from shared.sources.s3.objects import MD5, content_tag

# In the order of `checksums`. A CRC-64/NVME is always one of a whole object.
_CHECKSUMS = ("sha256", "crc32c", "crc32")
_COUNT = re.compile(r"[1-9][0-9]{0,4}")
_MOST_PARTS = 10_000  # that S3 takes


@dataclass(frozen=True, slots=True)
class OfParts:
    """The digest, in hex, over the digests of `count` parts, of which nothing says how long they are."""

    algorithm: str
    digest: str
    count: int


def of_parts(headers: Mapping[str, str]) -> OfParts | None:
    """Return what a HEAD tells of an object's parts; None where that is nothing to check them by.

    An ETag with a count is an MD5 over MD5s by the rules for one without (`s3_objects`), but not with a count of 1:
    some servers give random ones that look so.
    """
    for digest, count in _told(headers):
        if digest and _COUNT.fullmatch(count) and int(count) <= _MOST_PARTS:
            algorithm, _, value = digest.partition(":")
            return OfParts(algorithm, value, int(count))
    return None


def _told(headers: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield digests of parts and their counts from best to good enough; "" where a text is no digest."""
    if (headers.get("x-amz-checksum-type") or "COMPOSITE") == "COMPOSITE":
        for algorithm in _CHECKSUMS:
            text, _, count = (headers.get(f"x-amz-checksum-{algorithm}") or "").rpartition("-")
            yield base64_digest(algorithm, text), count
    tag, _, count = content_tag(headers).rpartition("-")
    if MD5.fullmatch(tag) and count != "1":
        yield f"md5:{tag}", count


def part_length(found: OfParts, status: int, headers: Mapping[str, str]) -> int:
    """Return how many bytes a part has, of the answer to a HEAD for it; 0 where that is not told.

    A count of parts that the answer has must be the same. For an ETag it has to be there: some stores put something
    else than MD5s into ETags that look so, and few of those answer for single parts as S3 does.
    """
    length = headers.get("Content-Length") or ""
    count = headers.get("x-amz-mp-parts-count") or ("" if found.algorithm == "md5" else str(found.count))
    is_part = status in (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT) and count == str(found.count)
    return int(length) if is_part and LENGTH.fullmatch(length) else 0


def digest_by_parts(found: OfParts, size_bytes: int, length_of: Callable[[int], int]) -> str:
    """Return the digest for `File.digest`; "" where the parts are not of one length, or nobody tells of which.

    `length_of` tells the bytes of a part by its number, 0 where it cannot. One or two parts follow from the first; of
    more, the last must be what is left for it too: many a writer ends its parts where its own buffers end.
    """
    first = length_of(1)
    if not fits(size_bytes, found.count, first):
        return ""
    if found.count > 2 and length_of(found.count) != size_bytes - (found.count - 1) * first:  # noqa: PLR2004 - see above
        return ""
    return f"{found.algorithm}-parts:{value_of(found.digest, found.count, first)}"
