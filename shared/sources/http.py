"""The byte path: blocking HTTP/1.1 requests on kept connections, read straight into the caller's buffer."""

import http.client
import io
import re
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from email.message import Message
from urllib.parse import quote, urljoin, urlsplit

from shared.errors import AddressRefused, LarderError, Unreachable
from shared.sources.connections import ConnectionPool, Origin, origin_of, public
from shared.sources.settings import SourceSettings

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_NO_BODY = frozenset({204, 304})
_MOST_ERROR_BYTES = 64 * 1024
_FILL_S = 0.25  # a read returns with what it has after this long, so that slowness can be seen from outside
_NOT_URL = re.compile(r"[^!-~]")


@dataclass(frozen=True, slots=True)
class Call:
    """One request; `secrets` are headers that never go to another origin; `redirects` is how many may still come."""

    url: str
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    redirects: int = 5
    follow: bool = True


class Reply:
    """A status, headers and a body that is read in parts; close it when done."""

    def __init__(
        self, url: str, response: http.client.HTTPResponse, release: Callable[[bool], None], clock: Callable[[], float]
    ) -> None:
        self.url = url
        self._response, self._release, self._clock = response, release, clock
        self._released = False
        self._failure: LarderError | None = None
        self._ahead: memoryview | None = None

    @property
    def status(self) -> int:
        """The status of the last answer, after redirects."""
        return self._response.status

    @property
    def headers(self) -> Message:
        """The headers of the last answer."""
        return self._response.headers

    @property
    def host(self) -> str:
        """The host that gave the last answer."""
        return urlsplit(self.url).hostname or ""

    def readinto(self, buffer: memoryview) -> int:
        """Fill the buffer, or what came within a moment; 0 at the end. Raises Unreachable."""
        if self._failure is not None:
            raise self._failure
        filled, until = 0, self._clock() + _FILL_S
        while filled < len(buffer):
            try:
                size = self._read_once(buffer[filled:])
            except (OSError, http.client.HTTPException, ValueError) as error:
                self._failure = _unreachable(self.url, error)
                break
            filled += size
            if size == 0 or self._clock() >= until:
                break
        if filled == 0 and self._failure is not None:
            raise self._failure
        return filled

    def _read_once(self, buffer: memoryview) -> int:
        response = self._response
        if response.isclosed():
            return 0
        if response.chunked or response.length is None:
            part = response.read1(len(buffer))
            buffer[: len(part)] = part
            return len(part)
        size = self._read_plain(buffer[: response.length], response)
        if size == 0 and response.length:
            raise http.client.IncompleteRead(b"", response.length)
        response.length -= size
        if response.length == 0:
            response.read()
        return size

    def _read_plain(self, buffer: memoryview, response: http.client.HTTPResponse) -> int:
        """Read what is there; HTTPResponse.readinto would wait until the buffer is full, however slowly it fills."""
        if self._ahead is None:
            # What came with the headers is in the reader's own buffer. One read of that size empties it for good.
            first = memoryview(bytearray(min(io.DEFAULT_BUFFER_SIZE, response.length or 0)))
            self._ahead = first[: response.fp.readinto1(first)]
        if not self._ahead:
            return response.fp.raw.readinto(buffer) or 0
        size = min(len(buffer), len(self._ahead))
        buffer[:size] = self._ahead[:size]
        self._ahead = self._ahead[size:]
        return size

    def read_small(self) -> bytes:
        """Return the body of an error or a short answer, at most 64 KiB of it."""
        body = bytearray(_MOST_ERROR_BYTES)
        filled = 0
        with suppress(LarderError):
            while filled < len(body) and (size := self.readinto(memoryview(body)[filled:])):
                filled += size
        return bytes(body[:filled])

    def close(self) -> None:
        """Give the connection back where the body was read to its end, else drop it."""
        if self._released:
            return
        self._released = True
        whole = self._response.isclosed() and self._failure is None
        self._release(whole and not self._response.will_close)
        self._response.close()


class HttpClient:
    """Requests with redirects followed by us: at most `Call.redirects`, never to plain http, never with secrets."""

    def __init__(self, settings: SourceSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._pool, self._clock = ConnectionPool(settings, clock), clock

    def send(self, call: Call) -> Reply:
        """Return the last answer, whatever its status; raises Unreachable, AddressRefused."""
        origin = origin_of(call.url)
        reply = self._send_once(origin, call)
        if reply.status not in _REDIRECTS or not call.follow:
            return reply
        location = reply.headers.get("Location", "")
        reply.read_small()
        reply.close()
        return self.send(decide_redirect(call, reply.status, location))

    def close(self) -> None:
        """Close the connections that are kept."""
        self._pool.close()

    def _send_once(self, origin: Origin, call: Call) -> Reply:
        connection, reused = self._pool.lease(origin)
        try:
            return self._exchange(origin, connection, call)
        except (OSError, http.client.HTTPException) as error:
            _drop(connection)
            # A server may close a kept connection at any time; that says nothing about the request.
            if not reused or isinstance(error, TimeoutError):
                raise _unreachable(call.url, error) from error
        connection = self._pool.open(origin)
        try:
            return self._exchange(origin, connection, call)
        except (OSError, http.client.HTTPException) as error:
            _drop(connection)
            raise _unreachable(call.url, error) from error

    def _exchange(self, origin: Origin, connection: http.client.HTTPConnection, call: Call) -> Reply:
        connection.putrequest(call.method, _target(call.url), skip_host=True, skip_accept_encoding=True)
        standard = {"Host": origin.netloc, "User-Agent": "larder", "Accept-Encoding": "identity"}
        for name, value in {**standard, **call.headers, **call.secrets}.items():
            connection.putheader(name, value)
        connection.endheaders()
        response = connection.getresponse()
        if response.status in _NO_BODY or call.method == "HEAD":
            response.read()

        def release(keep: bool) -> None:  # noqa: FBT001 - a callback of one answer
            if keep:
                self._pool.give_back(origin, connection)
            else:
                _drop(connection)

        return Reply(call.url, response, release, self._clock)


def decide_redirect(call: Call, status: int, location: str) -> Call:
    """Return the request that a redirect asks for, without secrets where it leads to another origin."""
    if not location:
        raise Unreachable(f"{public(call.url)} answered {status} without saying where to go")
    if call.redirects == 0:
        raise Unreachable(f"{public(call.url)} redirects too often")
    url = urljoin(call.url, _NOT_URL.sub(lambda c: quote(c.group().encode("latin-1", "replace")), location))
    before, after = origin_of(call.url), origin_of(url)
    if before.scheme == "https" and after.scheme != "https":
        raise AddressRefused(f"{public(call.url)} redirects to {public(url)}, from https to plain http; not followed")
    secrets = call.secrets if before == after else {}
    return replace(call, url=url, secrets=secrets, redirects=call.redirects - 1)


def _target(url: str) -> str:
    parts = urlsplit(url)
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def _drop(connection: http.client.HTTPConnection) -> None:
    if connection.sock is not None:
        with suppress(OSError):
            connection.sock.shutdown(socket.SHUT_RDWR)
    connection.close()


def _unreachable(url: str, error: Exception) -> Unreachable:
    match error:
        case TimeoutError():
            cause = "nothing came before the time-out"
        case http.client.IncompleteRead(expected=int(missing)):
            cause = f"the answer broke off {missing} bytes before its end"
        case http.client.IncompleteRead():
            cause = "the answer broke off before its end"
        case http.client.RemoteDisconnected():
            cause = "the server closed the connection without an answer"
        case OSError():
            cause = str(error)
        case _:
            cause = f"the answer is not HTTP ({type(error).__name__})"
    return Unreachable(f"{public(url)}: {cause}")
