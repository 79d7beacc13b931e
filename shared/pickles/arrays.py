"""Arrays of numpy: one whose type has objects is a pickle behind its header."""

import re
from typing import BinaryIO

NPY = b"\x93NUMPY"
_LONGEST_HEADER = 2**20
# As the type of an array or a field, in a header without its quotes; an escape or a comment may hide one.
_OBJECTS = re.compile(rb"(?<![A-Za-z0-9_])[rRuU]?\d*(?:O\d*|object_?)(?![A-Za-z0-9_])|[\\#]")
_QUOTES = re.compile(rb"""['"\s]""")  # pieces of a text that stand beside one another are one


def why_objects(file: BinaryIO) -> str:
    """Return why an array counts as a pickle, in words that follow its name; "" where it does not. Raises OSError."""
    file.seek(len(NPY))
    major = file.read(2)[:1]
    length = int.from_bytes(file.read(2 if major == b"\x01" else 4), "little")
    if length > _LONGEST_HEADER:
        return "is an array whose type cannot be looked through"
    header = _QUOTES.sub(b"", file.read(length))
    return "is an array of pickled objects" if _OBJECTS.search(header) else ""
