"""The value of a digest over the digests of parts: `HEX-COUNT-BYTES`.

A file in COUNT parts, each of BYTES bytes but the last, which has the rest; HEX is the digest of their digests, which
are put one after another as bytes. `File.digest` has it as `ALGORITHM-parts:HEX-COUNT-BYTES`.
"""

import re

_VALUE = re.compile(r"[0-9a-f]+-([1-9][0-9]{0,4})-([1-9][0-9]{0,17})", re.IGNORECASE | re.ASCII)


def value_of(digest_hex: str, count: int, part_bytes: int) -> str:
    """Return the value."""
    return f"{digest_hex}-{count}-{part_bytes}"


def part_bytes_of(value: str, size_bytes: int) -> int | None:
    """Return how long a part is; None where the text is no value of a file of this size."""
    match = _VALUE.fullmatch(value)
    if match is None:
        return None
    count, part_bytes = int(match[1]), int(match[2])
    return part_bytes if fits(size_bytes, count, part_bytes) else None


def fits(size_bytes: int, count: int, part_bytes: int) -> bool:
    """Tell whether a file can be in so many parts of this length, the last of them not empty."""
    return 0 < size_bytes - (count - 1) * part_bytes <= part_bytes
