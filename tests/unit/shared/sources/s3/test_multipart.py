"""Objects uploaded in parts: what a store reports about the parts, and how that is used."""

import base64
import hashlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rig.scripted_http import Answer, ScriptedRequest, ScriptedServer, reply
from shared.errors import LarderError, RateLimited, Unreachable
from shared.http.heads import Headers
from shared.manifest import File
from shared.sources.port import ANONYMOUS, Credentials
from shared.sources.s3.multipart import MultipartDigest, digest_by_parts, multipart_digest, part_length
from shared.sources.s3.requests import S3Requests
from shared.sources.s3.source import S3Source
from shared.sources.settings import SourceSettings
from shared.uri.model_uri import parse_uri

Serve = Callable[[Answer], ScriptedServer]
RAW = hashlib.sha256(b"x").digest()
SHA256, CRC = base64.b64encode(RAW).decode(), base64.b64encode(RAW[:4]).decode()
MD5 = RAW[:16].hex()
TAG = f'"{MD5}-3"'
COMPOSITE = {"x-amz-checksum-type": "COMPOSITE"}


@pytest.mark.parametrize(
    ("head", "found"),
    [
        ({**COMPOSITE, "x-amz-checksum-crc32": f"{CRC}-3"}, MultipartDigest("crc32", RAW[:4].hex(), 3)),
        ({**COMPOSITE, "x-amz-checksum-crc32c": f"{CRC}-3", "ETag": TAG}, MultipartDigest("crc32c", RAW[:4].hex(), 3)),
        ({**COMPOSITE, "x-amz-checksum-sha256": f"{SHA256}-1"}, MultipartDigest("sha256", RAW.hex(), 1)),
        ({"x-amz-checksum-sha256": f"{SHA256}-10000"}, MultipartDigest("sha256", RAW.hex(), 10_000)),
        (
            {"x-amz-checksum-crc32": f"{CRC}-2", "x-amz-checksum-sha256": f"{SHA256}-2", "ETag": TAG},
            MultipartDigest("sha256", RAW.hex(), 2),
        ),
        (
            {"x-amz-checksum-crc32": f"{CRC}-2", "x-amz-checksum-crc32c": f"{CRC}-2", "ETag": TAG},
            MultipartDigest("crc32c", RAW[:4].hex(), 2),
        ),
        ({"x-amz-checksum-crc32": f"{CRC}-2", "ETag": TAG}, MultipartDigest("crc32", RAW[:4].hex(), 2)),
        ({"ETag": TAG}, MultipartDigest("md5", MD5, 3)),
        ({"ETag": TAG.upper()}, MultipartDigest("md5", MD5, 3)),
        ({"ETag": TAG, "x-amz-server-side-encryption": "AES256"}, MultipartDigest("md5", MD5, 3)),
        ({"ETag": TAG, "x-amz-server-side-encryption": "aws:kms"}, None),
        ({"ETag": TAG, "x-amz-server-side-encryption": "aws:kms:dsse"}, None),
        ({"ETag": TAG, "x-amz-server-side-encryption-customer-algorithm": "AES256"}, None),
        (
            {**COMPOSITE, "x-amz-checksum-crc32": f"{CRC}-3", "x-amz-server-side-encryption": "aws:kms", "ETag": TAG},
            MultipartDigest("crc32", RAW[:4].hex(), 3),
        ),
        ({}, None),
        ({"ETag": f'"{MD5}"'}, None),
        ({"ETag": f'"{MD5}-1"'}, None),
        ({"ETag": f'"{MD5}0-3"'}, None),
        ({"ETag": f'W/"{MD5}-3"'}, None),
        ({**COMPOSITE, "x-amz-checksum-crc32": CRC}, None),
        ({**COMPOSITE, "x-amz-checksum-crc64nvme": "rosUhgp5mIg=-2"}, None),
        ({"x-amz-checksum-type": "FULL_OBJECT", "x-amz-checksum-crc32": f"{CRC}-3"}, None),
        ({**COMPOSITE, "x-amz-checksum-crc32": "no base64!-3"}, None),
        ({**COMPOSITE, "x-amz-checksum-crc32": f"{SHA256}-3"}, None),
        ({**COMPOSITE, "x-amz-checksum-crc32": "no base64!-3", "ETag": TAG}, MultipartDigest("md5", MD5, 3)),
        *(
            ({**COMPOSITE, "x-amz-checksum-crc32": f"{CRC}-{count}"}, None)
            for count in ("", "0", "-1", "03", "3 ", "10001", "9" * 30, "٣", "1e3")
        ),
    ],
)
def test_multipart_digests_are_read_from_response_headers(head: dict[str, str], found: MultipartDigest | None) -> None:
    assert multipart_digest(Headers({name.lower(): value for name, value in head.items()})) == found


@pytest.mark.parametrize(
    ("algorithm", "status", "headers", "length"),
    [
        ("crc32", 206, {"content-length": "5", "x-amz-mp-parts-count": "3"}, 5),
        ("crc32", 200, {"content-length": "5"}, 5),
        ("md5", 206, {"content-length": "5", "x-amz-mp-parts-count": "3"}, 5),
        ("md5", 206, {"content-length": "5"}, 0),
        ("crc32", 206, {"content-length": "5", "x-amz-mp-parts-count": "2"}, 0),
        ("crc32", 206, {"content-length": "5", "x-amz-mp-parts-count": "03"}, 0),
        ("crc32", 206, {}, 0),
        *(("crc32", 206, {"content-length": text}, 0) for text in ("-5", "5.0", "9" * 19, "٣", "5, 5")),
        *(("crc32", status, {"content-length": "5"}, 0) for status in (204, 301, 400, 403, 404, 412, 416, 500, 501)),
    ],
)
def test_the_part_length_is_read_only_from_a_consistent_answer(
    algorithm: str, status: int, headers: dict[str, str], length: int
) -> None:
    assert part_length(MultipartDigest(algorithm, "00", 3), status, Headers(headers)) == length


def decided(size_bytes: int, count: int, lengths: dict[int, int]) -> tuple[str, list[int]]:
    """Return the digest, and the numbers of the requested parts."""
    asked: list[int] = []

    def length_of(number: int) -> int:
        asked.append(number)
        return lengths.get(number, 0)

    return digest_by_parts(MultipartDigest("crc32", "00", count), size_bytes, length_of), asked


@pytest.mark.parametrize(
    ("size_bytes", "count", "lengths", "part_bytes", "asked"),
    [
        (5, 1, {1: 5}, 5, [1]),
        (8, 2, {1: 5}, 5, [1]),
        (10, 2, {1: 5}, 5, [1]),
        (13, 3, {1: 5, 3: 3}, 5, [1, 3]),
        (15, 3, {1: 5, 3: 5}, 5, [1, 3]),
        (15, 3, {1: 7, 3: 3}, 0, [1, 3]),
        (13, 3, {1: 5}, 0, [1, 3]),
        (13, 3, {1: 13, 3: 13}, 0, [1]),  # a server without support for parts
        (8, 2, {1: 8}, 0, [1]),
        (5, 1, {1: 4}, 0, [1]),
        (11, 2, {1: 5}, 0, [1]),
        (5, 2, {1: 5}, 0, [1]),
        (8, 2, {1: 0}, 0, [1]),
        (0, 1, {1: 0}, 0, [1]),
        (0, 10_000, {1: 0}, 0, [1]),
        (10**17, 10_000, {1: 10**18 - 1}, 0, [1]),
    ],
)
def test_a_multipart_digest_needs_parts_of_equal_length(
    size_bytes: int, count: int, lengths: dict[int, int], part_bytes: int, asked: list[int]
) -> None:
    assert decided(size_bytes, count, lengths) == (f"crc32-parts:00-{count}-{part_bytes}" if part_bytes else "", asked)


@given(part=st.integers(1, 2**40), count=st.integers(1, 10_000), data=st.data())
def test_equal_part_lengths_are_recognised_from_the_first_and_last_part(
    part: int, count: int, data: st.DataObject
) -> None:
    last = data.draw(st.integers(1, part))
    lengths = {1: part if count > 1 else last, count: last} if count != 1 else {1: last}
    digest, _ = decided((count - 1) * part + last, count, lengths)
    assert digest == f"crc32-parts:00-{count}-{lengths[1]}"


@given(lengths=st.lists(st.integers(1, 6), min_size=1, max_size=3))
def test_up_to_three_parts_have_a_digest_only_if_all_but_the_last_are_equal(lengths: list[int]) -> None:
    digest, _ = decided(sum(lengths), len(lengths), dict(enumerate(lengths, 1)))
    even = all(length == lengths[0] for length in lengths[:-1]) and lengths[-1] <= lengths[0]
    assert bool(digest) == even


def head(checksum: str = "", kind: str = "") -> bytes:
    return reply(200, Content_Length="13", ETag=TAG, x_amz_checksum_crc32=checksum, x_amz_checksum_type=kind)


def resolved(
    serve: Serve, whole: bytes, part: Callable[[ScriptedRequest], bytes]
) -> tuple[File, list[str], ScriptedServer]:
    """Return the one file of a store, and the requests for it."""
    server = serve(lambda asked: part(asked) if "partNumber" in asked.target else whole)
    source = S3Source(parse_uri("s3://bkt/m.bin"), ANONYMOUS, SourceSettings(s3_endpoint=server.url, read_timeout_s=30))
    try:
        return source.resolve().files[0], [asked.target for asked in server.asked], server
    finally:
        source.close()


def parts_of_five(asked: ScriptedRequest) -> bytes:
    """Answer as S3 does for 13 bytes in parts of 5."""
    length = "3" if asked.target.endswith("=3") else "5"
    return reply(206, Content_Length=length, x_amz_mp_parts_count="3")


def test_the_first_and_the_last_part_are_requested_at_the_version_that_was_listed(serve: Serve) -> None:
    file, targets, server = resolved(serve, head(f"{CRC}-3", "COMPOSITE"), parts_of_five)
    assert file == File("m.bin", 13, f"crc32-parts:{RAW[:4].hex()}-3-5", TAG)
    assert targets == ["/bkt/m.bin", "/bkt/m.bin?partNumber=1", "/bkt/m.bin?partNumber=3"]
    assert [asked.headers.get("if-match") for asked in server.asked] == [None, TAG, TAG]
    assert {asked.method for asked in server.asked} == {"HEAD"}


def test_an_etag_with_a_count_is_a_digest_of_parts(serve: Serve) -> None:
    assert resolved(serve, head(), parts_of_five)[0].digest == f"md5-parts:{MD5}-3-5"


def test_an_object_with_a_digest_of_the_whole_costs_one_request(serve: Serve) -> None:
    file, targets, _ = resolved(serve, head(CRC, "FULL_OBJECT"), parts_of_five)
    assert file.digest == f"crc32:{RAW[:4].hex()}"
    assert targets == ["/bkt/m.bin"]


@pytest.mark.parametrize(
    "answer",
    [
        head(),
        reply(206, Content_Length="0", x_amz_mp_parts_count="3"),
        reply(206, Content_Length="4", x_amz_mp_parts_count="3"),
        reply(206, Content_Length="5", x_amz_mp_parts_count="4"),
        reply(206, Content_Length="5"),
        *(reply(status) for status in (301, 400, 403, 404, 405, 412, 416, 500, 501, 502)),
    ],
)
def test_an_object_whose_parts_are_not_reported_is_listed_without_a_digest(serve: Serve, answer: bytes) -> None:
    file, targets, _ = resolved(serve, head(), lambda _: answer)
    assert file == File("m.bin", 13, "", TAG)
    assert len(targets) == 2


@pytest.mark.parametrize("count", ["10001", "999999999", "0", "1"])
def test_an_impossible_part_count_in_an_etag_is_ignored(serve: Serve, count: str) -> None:
    file, targets, _ = resolved(serve, reply(200, Content_Length="13", ETag=f'"{MD5}-{count}"'), parts_of_five)
    assert (file.digest, len(targets)) == ("", 1)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (reply(503, Retry_After="7"), RateLimited),
        (reply(429, Retry_After="7"), RateLimited),
        (b"", Unreachable),
    ],
)
def test_a_store_that_requests_time_is_asked_again_later(serve: Serve, answer: bytes, error: type[LarderError]) -> None:
    with pytest.raises(error):
        resolved(serve, head(), lambda _: answer)


@pytest.mark.parametrize(
    ("bucket", "url"),
    [
        ("bkt", "https://bkt.s3.eu-west-1.amazonaws.com/a%20b%3F?partNumber=1"),
        ("b.kt", "https://s3.eu-west-1.amazonaws.com/b.kt/a%20b%3F?partNumber=1"),
    ],
)
def test_a_query_follows_the_key_in_both_styles_and_is_signed(bucket: str, url: str) -> None:
    keys = Credentials({"AWS_ACCESS_KEY_ID": "AKIA", "AWS_SECRET_ACCESS_KEY": "s3cret"})
    requests = S3Requests(bucket, "eu-west-1", keys, SourceSettings())
    call = requests.build_request("HEAD", "a b?", {"If-Match": TAG}, "partNumber=1")
    assert call.url == url
    assert "Authorization" in call.secrets
