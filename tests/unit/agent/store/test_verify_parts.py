"""Digests over the digests of parts, independent of the pieces in which bytes arrive."""

import hashlib
import zlib
from collections.abc import Callable, Iterable

import pytest
from awscrt.checksums import crc32c
from hypothesis import given
from hypothesis import strategies as st

from agent.store.verify import FileHasher
from shared.errors import DigestMismatch
from shared.manifest import File

DIGESTS: dict[str, Callable[[bytes], bytes]] = {
    "sha256": lambda body: hashlib.sha256(body).digest(),
    "crc32c": lambda body: crc32c(body).to_bytes(4, "big"),
    "crc32": lambda body: zlib.crc32(body).to_bytes(4, "big"),
    "md5": lambda body: hashlib.md5(body, usedforsecurity=False).digest(),
}


def digest_of(algorithm: str, body: bytes, part_bytes: int) -> str:
    """Return the digest that an object store keeps for a body uploaded in parts of this size."""
    parts = [body[start : start + part_bytes] for start in range(0, len(body), part_bytes)]
    over = DIGESTS[algorithm](b"".join(map(DIGESTS[algorithm], parts)))
    return f"{algorithm}-parts:{over.hex()}-{len(parts)}-{part_bytes}"


def fed(digest: str, body: bytes, size_bytes: int, ends: Iterable[int] = ()) -> FileHasher:
    """Return a check that was fed a body in pieces with these ends."""
    check, start = FileHasher(File("f", size_bytes, digest)), 0
    for end in (*sorted(ends), len(body)):
        check.feed(memoryview(body)[start:end])
        start = end
    return check


@pytest.mark.parametrize("algorithm", DIGESTS)
@given(body=st.binary(min_size=1, max_size=60), part_bytes=st.integers(1, 70), data=st.data())
def test_the_digest_of_parts_does_not_depend_on_how_bytes_arrive(
    algorithm: str, body: bytes, part_bytes: int, data: st.DataObject
) -> None:
    ends = data.draw(st.lists(st.integers(0, len(body)), max_size=8))
    check = fed(digest_of(algorithm, body, part_bytes), body, len(body), ends)
    check.verify()
    check.verify()
    assert check.sha256 == hashlib.sha256(body).hexdigest()


@pytest.mark.parametrize("algorithm", DIGESTS)
@given(body=st.binary(min_size=1, max_size=60), part_bytes=st.integers(1, 70), data=st.data())
def test_one_flipped_bit_is_found(algorithm: str, body: bytes, part_bytes: int, data: st.DataObject) -> None:
    bit = data.draw(st.integers(0, 8 * len(body) - 1))
    damaged = bytearray(body)
    damaged[bit // 8] ^= 1 << bit % 8
    check = fed(digest_of(algorithm, body, part_bytes), bytes(damaged), len(body))
    with pytest.raises(DigestMismatch, match=f"'f': expected {algorithm}-parts "):
        check.verify()


@given(body=st.binary(min_size=2, max_size=60), part_bytes=st.integers(1, 30), cut=st.integers(1, 60))
def test_a_file_that_is_too_short_or_too_long_is_found(body: bytes, part_bytes: int, cut: int) -> None:
    digest = digest_of("crc32", body, part_bytes)
    for other in (body[: -min(cut, len(body))], body + bytes(cut)):
        with pytest.raises(DigestMismatch):
            fed(digest, other, len(body)).verify()


def test_the_digest_of_parts_matches_a_value_computed_by_openssl() -> None:
    """Ten times `a` in parts of four, by openssl."""
    fed("md5-parts:1C06F341515FE359BACC890CA66AA673-3-4", b"a" * 10, 10).verify()


@pytest.mark.parametrize(
    "value", ["", "zz-1-9", "%s", "%s-1", "%s-1-0", "%s-1-09", "%s-01-9", "%s-1-9-9", "%s-2-5 ", "%s-1-1", "%s-2-9"]
)
def test_a_malformed_value_never_matches(value: str) -> None:
    """It is compared with the digest of the body as a single part."""
    body = b"123456789"
    over = digest_of("crc32", body, 9).partition(":")[2].partition("-")[0]
    with pytest.raises(DigestMismatch, match=f"got {over}-1-9 "):
        fed(f"crc32-parts:{value.replace('%s', over)}", body, len(body)).verify()


@pytest.mark.parametrize("digest", ["crc32-parts:00-1-" + "9" * 5000, "crc32-parts:00-1-٣", "md5-parts:-1-1"])
def test_an_impossible_part_count_or_length_raises_only_digest_mismatch(digest: str) -> None:
    with pytest.raises(DigestMismatch):
        fed(digest, b"123456789", 9).verify()


@pytest.mark.parametrize("body", [b"", b"x"])
def test_an_empty_file_fails_a_digest_of_parts(body: bytes) -> None:
    with pytest.raises(DigestMismatch):
        fed("crc32-parts:00000000-1-5", body, 0).verify()


def test_an_unknown_digest_of_parts_is_not_checked() -> None:
    fed("git-sha1-parts:00-1-1", b"x", 1).verify()
