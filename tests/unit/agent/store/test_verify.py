import hashlib
import zlib
from collections.abc import Callable
from contextlib import nullcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.store.verify import FileHasher, verification
from shared.errors import DigestMismatch
from shared.manifest import File


def git_sha1(body: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(body) + body, usedforsecurity=False).hexdigest()


def reflected_crc(body: bytes, polynomial: int, bits: int) -> int:
    """The checksum bit by bit, as its catalogue entry defines it."""
    mask = (1 << bits) - 1
    value: int = mask
    for byte in body:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (polynomial if value & 1 else 0)
    return value ^ mask


DIGESTS: dict[str, Callable[[bytes], str]] = {
    "sha256": lambda body: hashlib.sha256(body).hexdigest(),
    "git-sha1": git_sha1,
    "md5": lambda body: hashlib.md5(body, usedforsecurity=False).hexdigest(),
    "crc32": lambda body: f"{zlib.crc32(body):08x}",
    "crc32c": lambda body: f"{reflected_crc(body, 0x82F63B78, 32):08x}",
    "crc64nvme": lambda body: f"{reflected_crc(body, 0x9A6C9329AC4BC9B5, 64):016x}",
}


@pytest.mark.parametrize("algorithm", list(DIGESTS))
@given(parts=st.lists(st.binary(max_size=20), max_size=6), flipped=st.booleans())
def test_a_file_must_match_the_publishers_digest(algorithm: str, parts: list[bytes], flipped: bool) -> None:  # noqa: FBT001 - drawn
    body = b"".join(parts)
    check = FileHasher(File("f", len(body), f"{algorithm}:{DIGESTS[algorithm](body)}"))
    for part in parts:
        check.feed(memoryview(part))
    if flipped:
        check.feed(memoryview(b"x"))
        with pytest.raises(DigestMismatch) as caught:
            check.verify()
        assert "'f'" in str(caught.value)
        assert DIGESTS[algorithm](body) in str(caught.value)
    else:
        check.verify()
        assert check.sha256 == hashlib.sha256(body).hexdigest()


@pytest.mark.parametrize(
    "digest", ["crc32:cbf43926", "crc32c:e3069283", "crc64nvme:ae8b14860a799888"], ids=lambda d: d.partition(":")[0]
)
def test_crcs_match_their_published_check_values(digest: str) -> None:
    check = FileHasher(File("f", 9, digest))
    check.feed(memoryview(b"123456789"))
    check.verify()


def test_the_git_digest_of_an_empty_file_matches_that_of_git() -> None:
    FileHasher(File("f", 0, "git-sha1:e69de29bb2d1d6434b8b29ae775ad8c2e48c5391")).verify()


def test_capital_hex_digits_are_the_same_digest() -> None:
    FileHasher(File("f", 0, f"sha256:{hashlib.sha256().hexdigest().upper()}")).verify()


@pytest.mark.parametrize("digest", ["", "sha999:00"])
def test_without_a_computable_digest_any_bytes_are_accepted(digest: str) -> None:
    check = FileHasher(File("f", 1, digest))
    check.feed(memoryview(b"x"))
    check.verify()
    assert check.sha256 == hashlib.sha256(b"x").hexdigest()


@pytest.mark.parametrize("algorithm", list(DIGESTS))
@pytest.mark.parametrize("flipped", [False, True])
def test_sha256_is_computed_only_if_wanted_or_published(
    algorithm: str,
    flipped: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    check = FileHasher(File("f", 9, f"{algorithm}:{DIGESTS[algorithm](b'123456789')}"), sha256=False)
    check.feed(memoryview(b"123456780" if flipped else b"123456789"))
    with pytest.raises(DigestMismatch) if flipped else nullcontext():
        check.verify()
    body = b"123456780" if flipped else b"123456789"
    assert check.sha256 == (hashlib.sha256(body).hexdigest() if algorithm == "sha256" else "")


def test_verification_is_by_digest_only_if_every_file_has_a_computable_one() -> None:
    assert verification(["sha256:0", "git-sha1:0", "md5:0"]) == "digest"
    assert verification(f"{name}-parts:0-1-1" for name in ("sha256", "crc32c", "crc32", "md5")) == "digest"
    assert verification(["sha256:0", ""]) == "size"
    assert verification(["sha999:0"]) == "size"
