"""The licence, by the front matter of a model's README."""

import re

FIRST_BYTES = 16 * 1024
_FIELD = re.compile(rb"^(license_name|license):[ \t]*[\"']?([\w.+-]{1,80})[\"']?[ \t]*\r?$", re.MULTILINE)


def licence_of(readme: bytes) -> str:
    """Return the licence's short name; of `other` the name that stands beside it."""
    if not readme.startswith(b"---"):
        return ""
    matter = readme[3:].partition(b"\n---")[0]
    found: dict[bytes, str] = {key: value.decode("ascii", "ignore") for key, value in _FIELD.findall(matter)}
    own, named = found.get(b"license", ""), found.get(b"license_name", "")
    return named if named and own in ("", "other") else own
