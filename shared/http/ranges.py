"""Requests for a byte range of a file, with the response checked against what was resolved."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from http import HTTPStatus

from shared.byte_ranges import ByteRange
from shared.errors import LarderError, SourceChanged, Unreachable
from shared.http.client import HttpClient, Request, Response
from shared.http.origins import origin_of, public
from shared.http.retry_after import seconds_of
from shared.manifest import File

_CONTENT_RANGE = re.compile(r"bytes ([0-9]{1,18})-([0-9]{1,18})/([0-9]+|\*)", re.IGNORECASE)
_SCRATCH_BYTES = 256 * 1024
_CODED_TRIES = 3  # a single compressed response may be a glitch of a proxy
_MAX_SHOWN = 80
_WEAK, _DATED = "W/", "Last-Modified: "  # prefixes of a `File.etag` that is not a strong entity tag


class EmptyBody:
    """A range without bytes, for which no request is sent."""

    skips, url = False, ""

    def skip(self, max_bytes: int) -> int:
        """Return 0."""
        del max_bytes
        return 0

    def readinto(self, buffer: memoryview) -> int:
        """Return 0."""
        del buffer
        return 0

    def close(self) -> None:
        """Do nothing."""


class RangeBody:
    """The requested bytes of a response from `url`. Raises Unreachable if fewer arrive; never reads more."""

    def __init__(self, response: Response, name: str, skip_bytes: int, left_bytes: int) -> None:
        self._response, self._name, self._skip_bytes, self._left_bytes = response, name, skip_bytes, left_bytes
        self.skips, self.url = skip_bytes > 0, response.url
        self._scratch = memoryview(bytearray(min(_SCRATCH_BYTES, skip_bytes)))

    def skip(self, max_bytes: int) -> int:
        """Discard bytes from a server that ignores Range; raises Unreachable if the response breaks off."""
        max_bytes = min(max_bytes, self._skip_bytes, len(self._scratch))
        if max_bytes <= 0:
            return 0
        size = self._read(self._scratch[:max_bytes])
        self._skip_bytes -= size
        return size

    def readinto(self, buffer: memoryview) -> int:
        """Fill the start of the buffer; raises Unreachable if the response breaks off."""
        while self.skip(_SCRATCH_BYTES):
            pass
        if self._left_bytes == 0 or len(buffer) == 0:
            return 0
        size = self._read(buffer[: self._left_bytes])
        self._left_bytes -= size
        return size

    def close(self) -> None:
        """Return the connection to the pool if the response was read to its end, else drop it."""
        self._response.close()

    def _read(self, buffer: memoryview) -> int:
        size = self._response.readinto(buffer)
        if size == 0:
            missing = self._skip_bytes + self._left_bytes
            raise Unreachable(f"{self._name!r} from {self._response.host} ended {missing} bytes early")
        return size


def range_header(file: File, offset: int, length: int | None) -> dict[str, str]:
    """Return the Range header that `open_range` sends, or none for the whole file. Some signatures cover it."""
    byte_range = _byte_range_of(file, offset, length)
    return {} if byte_range == ByteRange(0, file.size) else {"Range": f"bytes={byte_range.start}-{byte_range.end - 1}"}


def _byte_range_of(file: File, offset: int, length: int | None) -> ByteRange:
    return ByteRange(offset, file.size if length is None else min(file.size, offset + length))


def open_range(
    client: HttpClient,
    request: Request,
    file: File,
    offset: int,
    length: int | None,
    *,
    failure: Callable[[Response], LarderError],
) -> RangeBody | EmptyBody:
    """Request a range of a file and return its body; `failure` maps an unsuccessful response to its error."""
    byte_range = _byte_range_of(file, offset, length)
    if byte_range.size_bytes <= 0:
        return EmptyBody()
    part = range_header(file, offset, length)
    response = client.send(replace(request, headers={**request.headers, **part}) if part else request)
    try:
        if response.status not in (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT):
            raise _stale_link(request.url, response) or failure(response)
        skip_bytes = decide_skip(response.status, response.headers, file, byte_range, response.host)
    except LarderError:
        response.close()
        raise
    return RangeBody(response, file.path, skip_bytes, byte_range.size_bytes)


def _stale_link(url: str, response: Response) -> LarderError | None:
    """Return the error for a refusal by a redirect target: signed links expire, and the origin issues new ones."""
    refused = response.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
    if not refused or origin_of(response.url) == origin_of(url):
        return None
    return Unreachable(
        f"{public(url)} redirects to {public(response.url)}, which refuses the link (status {response.status}); the "
        "link may have expired and is requested again"
    )


def decide_skip(status: int, headers: Mapping[str, str], file: File, byte_range: ByteRange, host: str) -> int:
    """Return how many bytes of a successful response precede the range.

    Raises:
        SourceChanged: Size, entity tag or date differ from what was resolved.
        Unreachable: The response holds another range.
    """
    if has_changed(file.etag, headers):
        tags = f"{_present(file.etag, headers)[:_MAX_SHOWN]!r} now, {file.etag[:_MAX_SHOWN]!r} then"
        raise SourceChanged(
            f"{file.path!r} at {host} changed since it was resolved ({tags}); it will be resolved again"
        )
    _check_coding(file, headers, byte_range.size_bytes if status == HTTPStatus.PARTIAL_CONTENT else file.size, host)
    if status == HTTPStatus.OK:
        _check_total(file, headers.get("Content-Length") or "", host)
        return byte_range.start
    text = headers.get("Content-Range") or ""
    match = _CONTENT_RANGE.fullmatch(text.strip())
    if match is None:
        raise Unreachable(f"{host} sent a part of {file.path!r} without a valid Content-Range ({text!r})")
    _check_total(file, match.group(3), host)
    first, last = int(match.group(1)), int(match.group(2))
    if first != byte_range.start or last != byte_range.end - 1:
        raise Unreachable(
            f"{host} sent bytes {first} to {last} of {file.path!r} in response to a request for bytes "
            f"{byte_range.start} to {byte_range.end - 1}"
        )
    return 0


def _check_coding(file: File, headers: Mapping[str, str], size_bytes: int, host: str) -> None:
    """Refuse a response that was compressed in transit.

    Stores also declare an encoding for a file that is stored compressed; such a response has the size of the file.
    """
    coding, length = headers.get("Content-Encoding") or "identity", headers.get("Content-Length") or ""
    if coding.lower() != "identity" and length != str(size_bytes):
        raise Unreachable(
            f"{host} sent {file.path!r} compressed ({coding[:40]!r}) although the request did not accept that, so its "
            "parts cannot be assembled; disable compression on the server or on a proxy in between",
            _CODED_TRIES,
        )


def _check_total(file: File, total: str, host: str) -> None:
    if total.isascii() and total.isdigit() and (total.lstrip("0") or "0") != str(file.size):
        raise SourceChanged(f"{file.path!r} at {host} has {total} bytes now, {file.size} when it was resolved")


def validator_of(headers: Mapping[str, str]) -> str:
    """Return what identifies this version of a file, in the form of `File.etag`: its entity tag, else its date.

    A date that is not before the date of the response proves nothing (RFC 9110, 8.8.2.2): some servers always send
    "now".
    """
    if tag := headers.get("ETag") or "":
        return tag
    date = headers.get("Last-Modified") or ""
    return f"{_DATED}{date}" if date and _is_settled(date, headers.get("Date") or "") else ""


def precondition(file: File) -> dict[str, str]:
    """Return the header that makes the server itself refuse another version; only a strong tag can do that."""
    is_strong = bool(file.etag) and not file.etag.startswith((_WEAK, _DATED))
    return {"If-Match": file.etag} if is_strong else {}


def has_changed(resolved: str, headers: Mapping[str, str]) -> bool:
    """Return whether a response has another entity tag (weak or strong) or date than `File.etag`.

    Equal weak tags do not promise equal bytes, but different ones are different versions.
    """
    present = _present(resolved, headers)
    return bool(resolved and present) and _opaque(resolved) != _opaque(present)


def _present(resolved: str, headers: Mapping[str, str]) -> str:
    """Return the tag or date of a response, whichever kind was resolved."""
    if not resolved.startswith(_DATED):
        return headers.get("ETag") or ""
    date = headers.get("Last-Modified") or ""
    return f"{_DATED}{date}" if date else ""


def _opaque(tag: str) -> str:
    return tag.removeprefix(_WEAK).strip('"')


def _is_settled(date: str, answered: str) -> bool:
    date_s, answered_s = seconds_of(date), seconds_of(answered)
    return date_s is None or answered_s is None or date_s < answered_s
