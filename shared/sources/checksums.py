"""Checksums as object stores write them."""

import base64
from collections.abc import Mapping

# In order of preference: the strongest for its cost first. MD5 is last, because it is slower than SHA-256.
_BYTES = {"sha256": 32, "crc64nvme": 8, "crc32c": 4, "crc32": 4, "md5": 16}


def base64_digest(algorithm: str, text: str) -> str:
    """Return the digest `algorithm:hex` of a base64 checksum, or "" if its length is wrong."""
    try:
        raw = base64.b64decode(text, validate=True)
    except ValueError:
        return ""
    return f"{algorithm}:{raw.hex()}" if len(raw) == _BYTES[algorithm] else ""


def best_digest(checksums: Mapping[str, str]) -> str:
    """Return the best digest among base64 checksums by algorithm, or "" if there is none."""
    digests = (base64_digest(algorithm, checksums.get(algorithm, "")) for algorithm in _BYTES)
    return next((digest for digest in digests if digest), "")
