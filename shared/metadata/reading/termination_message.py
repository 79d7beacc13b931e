"""The result of a metadata Job: its container's termination message (kubelet keeps 4,096 bytes).

Anyone who may create pods in the namespace of the claim can write such a message, so it is untrusted.
"""

import re
from typing import Any

import msgspec

from shared.decode_errors import DECODE_ERRORS
from shared.metadata.model_metadata import Metadata

MAX_BYTES = 4096
UNFINISHED = "Unfinished"  # an early message: the sub-path exists and is being read
MAX_MESSAGE = 1024
_LONGEST_TEXT = 253
_LONGEST_WORD = 63
_MAX_ITEMS = 64
_MAX_NUMBER = 2**63 - 1
# If a message is too large, these are left out, group by group. What remains always fits.
_LEFT_OUT = (
    ("components",), ("adapter", "licence", "capabilities"), ("architectures", "pipeline", "frameworkVersion"),
    ("modelType", "dtype", "quantization"),
)  # fmt: skip
_REASON = re.compile(r"[A-Z][A-Za-z]{0,62}", re.ASCII)
_CAPABILITY = re.compile(r"[A-Z][A-Z_]{0,62}", re.ASCII)


class Reading(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """The metadata, or a stable reason and a message.

    `found` is whether the sub-path exists; None if nobody could check.
    """

    found: bool | None = True
    reason: str = ""
    message: str = ""
    metadata: Metadata | None = None


def failed(reason: str, message: str) -> Reading:
    """Return a reading without a result."""
    return Reading(reason=reason, message=message[:MAX_MESSAGE])


def encode_reading(reading: Reading) -> bytes:
    """Return JSON of at most 4,096 bytes for `decode_reading`; fields that do not fit are dropped, components first."""
    whole = _cleaned(msgspec.to_builtins(reading))
    whole["message"] = _plain(reading.message, MAX_MESSAGE)
    metadata = whole.get("metadata") or {}
    for left_out in ((), *_LEFT_OUT):
        for name in left_out:
            metadata.pop(name, None)
        body = msgspec.json.encode({k: v for k, v in whole.items() if v != ""})
        if len(body) <= MAX_BYTES:
            break
    return body


def decode_reading(text: str) -> Reading:
    """Decode a termination message. Raises ValueError, which names the problem."""
    if len(text.encode()) > MAX_BYTES:
        raise ValueError(f"it has more than {MAX_BYTES} bytes")
    try:
        reading = msgspec.json.decode(text, type=Reading)
    except DECODE_ERRORS as error:
        raise ValueError(f"it was not written by `larder extract`: {error}") from error
    if (reading.metadata is None) == (reading.reason == ""):
        raise ValueError("it must have metadata or a reason, and not both")
    if reading.reason and not _REASON.fullmatch(reading.reason):
        raise ValueError("its reason is not a CamelCase word")
    if reading.message != _plain(reading.message, MAX_MESSAGE):
        raise ValueError("its message is too long or not printable")
    if reading.metadata is not None:
        _check(msgspec.to_builtins(reading.metadata))
        if not all(_CAPABILITY.fullmatch(word) for word in reading.metadata.capabilities):
            raise ValueError("its capabilities do not have the format of OME's")
    return reading


def _check(value: Any) -> None:  # noqa: ANN401 - any JSON
    match value:
        case str() if value != _plain(value, _LONGEST_TEXT):
            raise ValueError("a string in it is too long or not printable")
        case int() if not 0 <= value <= _MAX_NUMBER:
            raise ValueError("a number in it is out of bounds")
        case dict() | list() | tuple() if len(value) > _MAX_ITEMS:
            raise ValueError(f"a list in it has more than {_MAX_ITEMS} items")
        case dict():
            for name, inner in value.items():
                _check(name)
                _check(inner)
        case list() | tuple():
            for inner in value:
                _check(inner)
        case _:
            pass


def _cleaned(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return a value that `_check` accepts: printable, cut strings, numbers within limits, short lists."""
    match value:
        case str():
            return _plain(value, _LONGEST_TEXT)
        case bool() | None:
            return value
        case int():
            return max(0, min(value, _MAX_NUMBER))
        case dict():
            items = list(value.items())[:_MAX_ITEMS]
            return {_plain(name, _LONGEST_WORD): _cleaned(inner) for name, inner in items}
        case list() | tuple():
            return [_cleaned(inner) for inner in value[:_MAX_ITEMS]]
        case _:
            return value


def _plain(text: str, most: int) -> str:
    return "".join(c if c.isascii() and c.isprintable() else "?" for c in text[:most])
