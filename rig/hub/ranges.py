"""Parses the one form of Range that downloads use."""

import re

_FORM = re.compile(r"bytes=(\d*)-(\d*)$")


class Unsatisfiable(Exception):
    """The range begins after the end of the file."""


def parse_range(header: str | None, size: int) -> tuple[int, int] | None:
    """Return (start, end) of a single range, end exclusive; None for the whole file. Raises Unsatisfiable."""
    match = _FORM.match(header or "")
    if match is None or match[1] == match[2] == "":
        return None
    if not match[1]:
        return max(0, size - int(match[2])), size
    start = int(match[1])
    if start >= size:
        raise Unsatisfiable
    return start, min(size, int(match[2]) + 1) if match[2] else size
