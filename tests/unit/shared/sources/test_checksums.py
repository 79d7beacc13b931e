import base64

import pytest

from shared.sources.checksums import base64_digest, best_digest

_BYTES = {"sha256": 32, "crc64nvme": 8, "crc32c": 4, "crc32": 4, "md5": 16}


def _reported(*algorithms: str) -> dict[str, str]:
    return {name: base64.b64encode(bytes(_BYTES[name])).decode() for name in algorithms}


@pytest.mark.parametrize("algorithm", _BYTES)
def test_a_checksum_in_base64_is_a_digest(algorithm: str) -> None:
    raw = bytes(range(_BYTES[algorithm]))
    assert base64_digest(algorithm, base64.b64encode(raw).decode()) == f"{algorithm}:{raw.hex()}"


@pytest.mark.parametrize("text", ["", "AAAA", "no base64!", "é", "A" * 44])
def test_a_malformed_base64_checksum_gives_no_digest(text: str) -> None:
    assert base64_digest("md5", text) == ""


@pytest.mark.parametrize(
    ("reported", "chosen"),
    [
        (tuple(_BYTES), "sha256"),
        (("md5", "crc32", "crc64nvme"), "crc64nvme"),
        (("md5", "crc32", "crc32c"), "crc32c"),
        (("md5", "crc32"), "crc32"),
        (("md5",), "md5"),
    ],
)
def test_the_best_of_several_checksums_is_used(reported: tuple[str, ...], chosen: str) -> None:
    assert best_digest(_reported(*reported)) == f"{chosen}:{bytes(_BYTES[chosen]).hex()}"


def test_no_valid_checksum_gives_no_digest() -> None:
    assert best_digest({}) == best_digest({"md5": "no base64!"}) == ""
