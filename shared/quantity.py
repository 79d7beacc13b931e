"""Kubernetes quantities as whole numbers."""

import re
from fractions import Fraction
from math import ceil

PATTERN = r"^([0-9]+|[0-9]*\.[0-9]+)(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][0-9]{1,2})?$"

_BINARY = {suffix: 1024**power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)}
_DECIMAL = {suffix: 1000**power for power, suffix in enumerate(("k", "M", "G", "T", "P", "E"), 1)}
_FACTORS = {"": Fraction(1), "m": Fraction(1, 1000)} | {s: Fraction(f) for s, f in (_BINARY | _DECIMAL).items()}
_LONGEST = 32
_SHAPE = re.compile(PATTERN)


def parse_quantity(value: int | str) -> int:
    """Return a quantity such as `500Gi`, `1e9` or 1024 in its base unit, rounded up; raises ValueError."""
    text = str(value)
    found = _SHAPE.fullmatch(text)
    if not found or len(text) > _LONGEST:
        raise ValueError(f"{text!r} is not a quantity; write a number with a unit, for example 500Gi or 20G")
    number, suffix = found.group(1), found.group(2) or ""
    factor = _FACTORS.get(suffix) or Fraction(10) ** int(suffix[1:])
    return ceil(Fraction(number) * factor)


def printed_bytes(size_bytes: int) -> str:
    """Return a size for a table; empty if unknown."""
    return format_bytes(size_bytes) if size_bytes else ""


def format_bytes(size_bytes: int) -> str:
    """Return a size for people, for example `13.4 GiB`."""
    size = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:  # noqa: PLR2004 - the binary step
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
