"""Checksums as object stores write them."""

import base64
from collections.abc import Mapping

# From best to good enough: what tells most for its cost, MD5 last, which takes longer than SHA-256 does.
_BYTES = {"sha256": 32, "crc64nvme": 8, "crc32c": 4, "crc32": 4, "md5": 16}


def base64_digest(algorithm: str, text: str) -> str:
    """Return the digest `algorithm:hex` for a checksum in base64; "" where the text is none of that length."""
    try:
        raw = base64.b64decode(text, validate=True)
    except ValueError:
        return ""
    return f"{algorithm}:{raw.hex()}" if len(raw) == _BYTES[algorithm] else ""


def best_digest(told: Mapping[str, str]) -> str:
    """Return the digest to check a file against, of checksums in base64 by algorithm; "" where there is none."""
    digests = (base64_digest(algorithm, told.get(algorithm, "")) for algorithm in _BYTES)
    return next((digest for digest in digests if digest), "")
