"""The head of an HTTP/1.1 response: its status, its headers and the length of its body."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

_STATUS = re.compile(r"HTTP/1\.([01]) ([0-9]{3})(?: [^\r\n]*)?")
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NO_BODY = frozenset({204, 304})
_LONGEST_LINE = 8192  # like the limit of servers on request headers; signed URLs have about two thousand bytes
LENGTH = re.compile(r"[0-9]{1,18}")  # any number of bytes that a file system can count


class RemoteProtocolError(ValueError):
    """The response is not HTTP/1.1, or contradicts itself about its length."""


class Headers(Mapping[str, str]):
    """Headers by case-insensitive name; the values of a repeated header are joined by commas."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values

    def __getitem__(self, name: str) -> str:
        return self._values[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


@dataclass(frozen=True, slots=True)
class Head:
    """A parsed head; `length` is in bytes, or None if chunks or the end of the connection mark the end of the body."""

    status: int
    headers: Headers
    length: int | None
    chunked: bool
    keep_alive: bool


def parse_head(text: bytes, method: str) -> Head:
    """Parse a head that has no blank line at its end; raises RemoteProtocolError."""
    first, *lines = text.decode("latin-1").split("\r\n")
    if longest := next((line for line in (first, *lines) if len(line) > _LONGEST_LINE), None):
        raise RemoteProtocolError(
            f"a header has {len(longest)} bytes ({longest[:40]!r}...), more than the limit of {_LONGEST_LINE}"
        )
    match = _STATUS.fullmatch(first)
    if match is None:
        raise RemoteProtocolError("the status line is invalid")
    values: dict[str, str] = {}
    for line in lines:
        raw_name, colon, value = line.partition(":")
        if not colon:
            raise RemoteProtocolError("a header has no valid name")
        name, value = _lower(raw_name), value.strip(" \t")
        values[name] = f"{values[name]}, {value}" if name in values else value
    status = int(match[2])
    length, chunked = _framing(values)
    if method == "HEAD" or status in _NO_BODY:
        length, chunked = 0, False
    return Head(status, Headers(values), length, chunked, _keep_alive(values, match[1] == "1"))


@lru_cache(maxsize=256)
def _lower(name: str) -> str:
    """Return a header name in lower case; cached, since responses have the same few. Raises RemoteProtocolError."""
    if not _NAME.fullmatch(name):
        raise RemoteProtocolError("a header has no valid name")
    return name.lower()


def _framing(headers: Mapping[str, str]) -> tuple[int | None, bool]:
    coding = headers.get("transfer-encoding", "").lower()
    if coding:
        if coding != "chunked":
            raise RemoteProtocolError("the transfer encoding is not supported")
        return None, True
    if "content-length" not in headers:
        return None, False
    text = headers["content-length"]
    if not LENGTH.fullmatch(text):  # the header may be repeated
        text, *others = {part.strip() for part in text.split(",")}
        if others or not LENGTH.fullmatch(text):
            raise RemoteProtocolError("the Content-Length is invalid")
    return int(text), False


def _keep_alive(headers: Mapping[str, str], is_1_1: bool) -> bool:  # noqa: FBT001 - read off the status line
    options = headers.get("connection", "").lower()
    return "close" not in options and (is_1_1 or "keep-alive" in options)
