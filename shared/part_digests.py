"""The value of a digest over the digests of parts: `HEX-COUNT-BYTES`.

The file has COUNT parts of BYTES bytes each, except that the last has the rest. HEX is the digest of the concatenated
binary digests of the parts. `File.digest` has the form `ALGORITHM-parts:HEX-COUNT-BYTES`.
"""

import re

_VALUE = re.compile(r"[0-9a-f]+-([1-9][0-9]{0,4})-([1-9][0-9]{0,17})", re.IGNORECASE | re.ASCII)


def value_of(digest_hex: str, count: int, part_bytes: int) -> str:
    """Return the value."""
    return f"{digest_hex}-{count}-{part_bytes}"


def part_bytes_of(value: str, size_bytes: int) -> int | None:
    """Return the length of a part; None if the text is not a value for a file of this size."""
    match = _VALUE.fullmatch(value)
    if match is None:
        return None
    count, part_bytes = int(match[1]), int(match[2])
    return part_bytes if fits(size_bytes, count, part_bytes) else None


def fits(size_bytes: int, count: int, part_bytes: int) -> bool:
    """Return whether a file can have this many parts of this length, the last one not empty."""
    return 0 < size_bytes - (count - 1) * part_bytes <= part_bytes
