"""Checksums as object stores write them."""

import base64
import hashlib


def base64_digest(algorithm: str, text: str) -> str:
    """Return the digest `algorithm:hex` for a checksum in base64; "" where the text is none of that length."""
    try:
        raw = base64.b64decode(text, validate=True)
    except ValueError:
        return ""
    whole = len(raw) == hashlib.new(algorithm, usedforsecurity=False).digest_size
    return f"{algorithm}:{raw.hex()}" if whole else ""
