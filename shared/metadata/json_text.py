"""Parses untrusted JSON within limits: size, depth, number of values, length of strings, duplicate keys, NaN."""

import json
import re
from typing import Any, NoReturn

from shared.metadata.errors import MetadataMalformed, MetadataOversized

MAX_SCANNED_BYTES = 16 * 2**20  # up to this size, an oversized document is scanned for the field at fault
_MAX_BYTES = 2 * 2**20
_MAX_STRING_BYTES = 512 * 1024
_MAX_VALUES = 60_000
_DEEPEST = 64
_LONGEST_KEY_BYTES = 1024
# An unterminated string is one token up to the end of the text, so the search never restarts within it.
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"?+|[\[\]{},:]', re.DOTALL)


def parse_json(file: str, body: bytes) -> Any:  # noqa: ANN401 - any JSON value
    """Parse a JSON file. Raises MetadataMalformed and MetadataOversized, which name the field."""
    _check_bounds(file, body)
    try:
        return json.loads(
            body.decode(),
            object_pairs_hook=lambda pairs: _object(file, pairs),
            parse_constant=lambda name: _refuse_constant(file, name),
        )
    except UnicodeDecodeError as error:
        raise MetadataMalformed(file, "", f"is not UTF-8 at byte {error.start}") from error
    except json.JSONDecodeError as error:
        problem = f"is not JSON: {error.msg}, line {error.lineno}, column {error.colno}"
        raise MetadataMalformed(file, "", problem) from error
    except ValueError as error:  # a number with more digits than Python converts
        raise MetadataMalformed(file, "", f"has a number that is too long: {error}") from error


def _object(file: str, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise MetadataMalformed(file, twice, "is repeated in one object; remove one")
    return found


def _refuse_constant(file: str, name: str) -> NoReturn:
    raise MetadataMalformed(file, "", f"has {name}, which is not JSON; write a number")


class _Place:
    """The position of the scan in a document; arrays are shown as `[]`."""

    def __init__(self) -> None:
        self._keys: list[str] = []
        self._in_object: list[bool] = []
        self._before_value = False

    @property
    def depth(self) -> int:
        return len(self._in_object)

    @property
    def name(self) -> str:
        return ".".join(key for key in self._keys if key)

    @property
    def before_key(self) -> bool:
        return bool(self._in_object) and self._in_object[-1] and not self._before_value

    def step(self, token: bytes) -> None:
        match token:
            case b"{" | b"[":
                self._in_object.append(token == b"{")
                self._keys.append("" if token == b"{" else "[]")
                self._before_value = token == b"["
            case b"}" | b"]":
                if self._in_object:
                    self._in_object.pop()
                    self._keys.pop()
            case b",":
                self._before_value = not (self._in_object and self._in_object[-1])
            case b":":
                self._before_value = True
            case _ if self.before_key:
                self._keys[-1] = token[1:65].rstrip(b'"').decode(errors="replace")


def _check_bounds(file: str, body: bytes) -> None:
    if len(body) > MAX_SCANNED_BYTES:
        raise MetadataOversized(file, "", f"has {len(body)} bytes; the limit is {_MAX_BYTES}")
    place = _Place()
    for values, found in enumerate(_TOKEN.finditer(body), 1):
        token_bytes = found.end() - found.start()
        max_bytes = _LONGEST_KEY_BYTES if place.before_key else _MAX_STRING_BYTES
        place.step(body[found.start() : min(found.end(), found.start() + 66)])
        if token_bytes - 2 > max_bytes:
            problem = f"is a {'name' if max_bytes == _LONGEST_KEY_BYTES else 'string'} of {token_bytes - 2} bytes"
            raise MetadataOversized(file, place.name, f"{problem}; the limit is {max_bytes}")
        if place.depth > _DEEPEST:
            raise MetadataMalformed(file, place.name, f"is nested deeper than {_DEEPEST} levels")
        if values > 2 * _MAX_VALUES:
            raise MetadataOversized(file, place.name, f"the file exceeds its limit of {_MAX_VALUES} values here")
    if len(body) > _MAX_BYTES:
        raise MetadataOversized(file, "", f"has {len(body)} bytes; the limit is {_MAX_BYTES}")
