import base64
import hashlib

import pytest

from shared.sources.checksums import base64_digest


@pytest.mark.parametrize("algorithm", ["md5", "sha256"])
def test_a_checksum_in_base64_is_a_digest(algorithm: str) -> None:
    raw = hashlib.new(algorithm, b"x", usedforsecurity=False).digest()
    assert base64_digest(algorithm, base64.b64encode(raw).decode()) == f"{algorithm}:{raw.hex()}"


@pytest.mark.parametrize("text", ["", "AAAA", "no base64!", "é", "A" * 44])
def test_anything_else_is_none(text: str) -> None:
    assert base64_digest("md5", text) == ""
