"""A part of a file over HTTP: asked for by Range, and what came held against what was promised."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from http import HTTPStatus

from shared.errors import LarderError, SourceChanged, Unreachable
from shared.manifest import File
from shared.sources.connections import origin_of, public
from shared.sources.http import Call, HttpClient, Reply
from shared.spans import Span

_CONTENT_RANGE = re.compile(r"bytes ([0-9]{1,18})-([0-9]{1,18})/([0-9]+|\*)", re.IGNORECASE)
_SCRATCH_BYTES = 256 * 1024
_CODED_TRIES = 3  # one such answer may be a proxy's slip


class EmptyBody:
    """A part without bytes; nothing is asked for it."""

    skips, url = False, ""

    def readinto(self, buffer: memoryview) -> int:
        """Return 0."""
        del buffer
        return 0

    def close(self) -> None:
        """Do nothing."""


class RangeBody:
    """The promised bytes of a reply, which came from `url`: no fewer (Unreachable), and no more are read."""

    def __init__(self, reply: Reply, name: str, skip_bytes: int, left_bytes: int) -> None:
        self._reply, self._name, self._skip_bytes, self._left_bytes = reply, name, skip_bytes, left_bytes
        self.skips, self.url = skip_bytes > 0, reply.url

    def readinto(self, buffer: memoryview) -> int:
        """Fill the start of the buffer; raises Unreachable where the answer breaks off."""
        self._discard()
        if self._left_bytes == 0 or len(buffer) == 0:
            return 0
        size = self._read(buffer[: self._left_bytes])
        self._left_bytes -= size
        return size

    def close(self) -> None:
        """Give the connection back where the answer was read to its end, else drop it."""
        self._reply.close()

    def _discard(self) -> None:
        """Pass over what a server sent that ignores Range."""
        if self._skip_bytes:
            scratch = memoryview(bytearray(min(_SCRATCH_BYTES, self._skip_bytes)))
            while self._skip_bytes:
                self._skip_bytes -= self._read(scratch[: self._skip_bytes])

    def _read(self, buffer: memoryview) -> int:
        size = self._reply.readinto(buffer)
        if size == 0:
            missing = self._skip_bytes + self._left_bytes
            raise Unreachable(f"{self._name!r} from {self._reply.host} broke off {missing} bytes before its end")
        return size


def range_header(file: File, offset: int, length: int | None) -> dict[str, str]:
    """Return the header that `open_range` sends for a part; none for the whole. Some signatures include it."""
    span = _span_of(file, offset, length)
    return {} if span == Span(0, file.size) else {"Range": f"bytes={span.start}-{span.end - 1}"}


def _span_of(file: File, offset: int, length: int | None) -> Span:
    return Span(offset, file.size if length is None else min(file.size, offset + length))


def open_range(
    client: HttpClient,
    call: Call,
    file: File,
    offset: int,
    length: int | None,
    *,
    failure: Callable[[Reply], LarderError],
) -> RangeBody | EmptyBody:
    """Ask for a part of a file and return its body; `failure` says what a status that is no success means."""
    span = _span_of(file, offset, length)
    if span.size_bytes <= 0:
        return EmptyBody()
    part = range_header(file, offset, length)
    reply = client.send(replace(call, headers={**call.headers, **part}) if part else call)
    try:
        if reply.status not in (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT):
            raise _stale_link(call.url, reply) or failure(reply)
        skip_bytes = decide_skip(reply.status, reply.headers, file, span, reply.host)
    except LarderError:
        reply.close()
        raise
    return RangeBody(reply, file.path, skip_bytes, span.size_bytes)


def _stale_link(url: str, reply: Reply) -> LarderError | None:
    """Return the error for a refusal elsewhere than where we asked: signed links expire and are given out anew."""
    refused = reply.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
    if not refused or origin_of(reply.url) == origin_of(url):
        return None
    return Unreachable(
        f"{public(url)} leads to {public(reply.url)}, which refuses the link (status {reply.status}); it may have "
        "expired and is asked for again"
    )


def decide_skip(status: int, headers: Mapping[str, str], file: File, span: Span, host: str) -> int:
    """Return how many bytes of a successful answer stand before the span, or raise for one that does not fit.

    Raises SourceChanged where size or entity tag are others than resolved, Unreachable where the range is another.
    """
    if etag_changed(file.etag, headers.get("ETag") or ""):
        raise SourceChanged(f"{file.path!r} at {host} changed since it was resolved; it is resolved again")
    _check_coding(file, headers, span.size_bytes if status == HTTPStatus.PARTIAL_CONTENT else file.size, host)
    if status == HTTPStatus.OK:
        _check_total(file, headers.get("Content-Length") or "", host)
        return span.start
    text = headers.get("Content-Range") or ""
    match = _CONTENT_RANGE.fullmatch(text.strip())
    if match is None:
        raise Unreachable(f"{host} answered a part of {file.path!r} without saying which ({text!r})")
    _check_total(file, match.group(3), host)
    first, last = int(match.group(1)), int(match.group(2))
    if first != span.start or last != span.end - 1:
        raise Unreachable(
            f"{host} sent bytes {first} to {last} of {file.path!r} where {span.start} to {span.end - 1} were asked for"
        )
    return 0


def _check_coding(file: File, headers: Mapping[str, str], size_bytes: int, host: str) -> None:
    """Refuse what is compressed on its way; stores also say so of a file that is kept like that, in its own size."""
    coding, length = headers.get("Content-Encoding") or "identity", headers.get("Content-Length") or ""
    if coding.lower() != "identity" and length != str(size_bytes):
        raise Unreachable(
            f"{host} sends {file.path!r} compressed ({coding[:40]!r}) though it was asked for as it is, so that its "
            "bytes cannot be put together; switch compression off for it at the server, or at the proxy on the way",
            _CODED_TRIES,
        )


def _check_total(file: File, total: str, host: str) -> None:
    if total.isascii() and total.isdigit() and (total.lstrip("0") or "0") != str(file.size):
        raise SourceChanged(f"{file.path!r} at {host} has {total} bytes now, {file.size} when it was resolved")


def etag_changed(resolved: str, present: str) -> bool:
    """Say whether two entity tags are both strong and differ."""
    if not resolved or not present or resolved.startswith("W/") or present.startswith("W/"):
        return False
    return resolved.strip('"') != present.strip('"')
