"""Blocking HTTP/1.1 requests over persistent connections, read straight into the caller's buffer."""

import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from urllib.parse import quote, urljoin

from shared.errors import AddressRefused, InvalidURI, LarderError, RateLimited, Unreachable
from shared.http.bodies import IncompleteBody, WireBody, body_of
from shared.http.connection import MOMENT_S, Connection
from shared.http.connection_pool import ConnectionPool
from shared.http.heads import Head, RemoteProtocolError, parse_head
from shared.http.origins import Origin, origin_of, public
from shared.http.proxies import Proxy
from shared.http.rate_limited_origins import RateLimitedOrigins
from shared.http.settings import ClientSettings

REDIRECT_TRIES = 1  # a server with a bad redirect sends the same one again
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_STANDARD = ("User-Agent: larder", "Accept-Encoding: identity")
_MAX_ERROR_BYTES = 64 * 1024
_MAX_INTERIM = 20
_ERROR_S = 10.0  # seconds to read the body of an error
_ANSWER_S = 60.0  # seconds to read a whole response that is not a file, however slowly it arrives
_NOT_A_LINE = re.compile("[\r\n\0]|[^\0-\xff]")
_NOT_A_TARGET = re.compile(r"[\s\0]")  # either would start a second request line
_TARGET = re.compile(r"[^:/?#]+://[^/?#]*([^#]*)")  # path and query
_NOT_URL = re.compile(r"[^!-~]")


@dataclass(frozen=True, slots=True)
class Request:
    """One request.

    Args:
        url: An http or https URL.
        method: The HTTP method.
        headers: Headers that go to every origin, redirects included.
        secrets: Headers that never go to another origin.
        max_redirects: The limit on redirects.
        follow_redirects: Whether redirects are followed at all.
        body: Sent with its length; a request with a body never follows redirects.
    """

    url: str
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    max_redirects: int = 5
    follow_redirects: bool = True
    body: bytes = field(default=b"", repr=False)


class Response:
    """A response: status, headers and a body that is read in parts. Close it when done."""

    def __init__(
        self, url: str, head: Head, body: WireBody, release: Callable[[bool], None], clock: Callable[[], float]
    ) -> None:
        self.url, self.status, self.headers = url, head.status, head.headers
        self._keep_alive, self._body, self._release, self._clock = head.keep_alive, body, release, clock
        self._released = False
        self._failure: LarderError | None = None

    @property
    def host(self) -> str:
        """The host that sent this response, after any redirects."""
        return origin_of(self.url).host

    def readinto(self, buffer: memoryview) -> int:
        """Fill the buffer, or return what arrived within a moment; 0 at the end. Raises Unreachable.

        TLS returns 16 KiB at a time, and every part costs the caller a lot of work.
        """
        if self._failure is not None:
            raise self._failure
        filled, until = 0, self._clock() + MOMENT_S
        while filled < len(buffer):
            try:
                size = self._body.read_once(buffer[filled:])
            except (OSError, EOFError, RemoteProtocolError) as error:
                self._failure = _unreachable(self.url, error)
                break
            filled += size
            if size == 0 or self._body.ended or self._clock() >= until:
                break
        if filled == 0 and self._failure is not None:
            raise self._failure
        return filled

    def read_all(self, max_bytes: int) -> bytes:
        """Return the whole body and close the response; raises Unreachable if it breaks off or is too long."""
        parts, left = [], max_bytes + 1
        buffer = memoryview(bytearray(min(left, _MAX_ERROR_BYTES)))
        until = self._clock() + _ANSWER_S
        try:
            while left and (size := self.readinto(buffer[:left])):
                parts.append(bytes(buffer[:size]))
                left -= size
                if self._clock() >= until:
                    raise Unreachable(f"{public(self.url)}: the response did not arrive within {_ANSWER_S:.0f} seconds")
        finally:
            self.close()
        if not left:
            raise Unreachable(f"{public(self.url)}: the response is longer than {max_bytes} bytes")
        return b"".join(parts)

    def read_small(self) -> bytes:
        """Return the body of an error or a short response, truncated to 64 KiB."""
        body = bytearray(_MAX_ERROR_BYTES)
        filled, until = 0, self._clock() + _ERROR_S
        with suppress(LarderError):
            while filled < len(body) and (size := self.readinto(memoryview(body)[filled:])):
                filled += size
                if self._clock() >= until:
                    break
        return bytes(body[:filled])

    def close(self) -> None:
        """Return the connection to the pool if the body was read to its end, else drop it."""
        if not self._released:
            self._released = True
            self._release(self._body.ended and self._keep_alive and self._failure is None)


class HttpClient:
    """A client that follows redirects itself: a few, never from https to http, with secrets only to the same origin.

    A request on a connection that the server has closed is sent again, also a POST: ours ask for tokens and listings.
    """

    def __init__(self, settings: ClientSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._pool, self._clock, self._rate_limits = ConnectionPool(settings, clock), clock, RateLimitedOrigins(clock)

    def send(self, request: Request) -> Response:
        """Send a request and return the final response, whatever its status.

        Raises:
            RateLimited: The origin asks for a pause; raised for every later request to it until the pause ends.
            Unreachable: No response arrives, or it is not HTTP.
            AddressRefused: The host resolves to a forbidden address, or a redirect leads to one.
        """
        origin = origin_of(request.url)
        self._rate_limits.check(origin, request.url)
        response = self._send_once(origin, request)
        try:
            self._rate_limits.note(origin, request.url, response.status, response.headers)
        except RateLimited:
            response.read_small()
            response.close()
            raise
        if response.status not in _REDIRECTS or not request.follow_redirects or request.body:
            return response
        location = response.headers.get("Location", "")
        response.read_small()
        response.close()
        return self.send(decide_redirect(request, response.status, location))

    def check_rate_limit(self, url: str) -> None:
        """Raise RateLimited if the origin of a URL has asked for a pause; for requests sent by other clients."""
        self._rate_limits.check(origin_of(url), url)

    def note_rate_limit(self, url: str, status: int, headers: Mapping[str, str]) -> None:
        """Record the pause that a response to another client asks for; later requests here are refused until it ends.

        Args:
            url: The URL of the request.
            status: The status of the response.
            headers: Its headers.

        Raises:
            RateLimited: The response asks for a pause.
        """
        self._rate_limits.note(origin_of(url), url, status, headers)

    def close(self) -> None:
        """Close all kept connections."""
        self._pool.close()

    def _send_once(self, origin: Origin, request: Request) -> Response:
        connection, reused = self._pool.lease(origin)
        try:
            return self._exchange(origin, connection, request)
        except (OSError, EOFError, RemoteProtocolError) as error:
            connection.close()
            # A server may close a kept connection at any time, which says nothing about the request.
            if not reused or isinstance(error, TimeoutError | RemoteProtocolError):
                raise _unreachable(request.url, error) from error
        connection = self._pool.open(origin)
        try:
            return self._exchange(origin, connection, request)
        except (OSError, EOFError, RemoteProtocolError) as error:
            connection.close()
            raise _unreachable(request.url, error) from error

    def _exchange(self, origin: Origin, connection: Connection, request: Request) -> Response:
        try:
            data = _encode_request(origin, request, connection.via)
        except InvalidURI:
            connection.close()
            raise
        connection.send(data)
        head = _final_head(connection, request.method)

        def release(keep: bool) -> None:  # noqa: FBT001 - a callback of one response
            if keep and connection.is_quiet:
                self._pool.release(origin, connection)
            else:
                connection.close()

        return Response(request.url, head, body_of(head, connection), release, self._clock)


def _final_head(connection: Connection, method: str) -> Head:
    for _ in range(_MAX_INTERIM):
        head = parse_head(connection.read_head(), method)
        if head.status >= HTTPStatus.OK:
            return head  # earlier heads are interim: 100 Continue or 103 Early Hints
    raise RemoteProtocolError("too many interim responses")


def _encode_request(origin: Origin, request: Request, proxy: Proxy | None) -> bytes:
    target = f"http://{origin.netloc}{_target(request.url)}" if proxy else _target(request.url)
    lines = [f"{request.method} {target} HTTP/1.1", f"Host: {origin.netloc}", *_STANDARD]
    if proxy and proxy.authorization:
        lines.append(f"Proxy-Authorization: {proxy.authorization}")
    length = {"Content-Length": str(len(request.body))} if request.body else {}
    lines += [f"{name}: {value}" for name, value in {**length, **request.headers, **request.secrets}.items()]
    if _NOT_A_LINE.search("".join(lines)) or _NOT_A_TARGET.search(target):
        raise InvalidURI(
            f"{public(request.url)}: the request contains a line break or a character that is not allowed in headers; "
            "correct the URI or the credentials"
        )
    return "\r\n".join((*lines, "", "")).encode("latin-1") + request.body


def decide_redirect(request: Request, status: int, location: str) -> Request:
    """Return the request for a redirect, without secrets if it leads to another origin."""
    if not location:
        raise Unreachable(f"{public(request.url)} sent a redirect (status {status}) without a Location", REDIRECT_TRIES)
    if request.max_redirects == 0:
        raise Unreachable(f"{public(request.url)} sent too many redirects", REDIRECT_TRIES)
    try:
        url = urljoin(request.url, _NOT_URL.sub(lambda c: quote(c.group().encode("latin-1", "replace")), location))
    except ValueError as error:
        raise Unreachable(f"{public(request.url)} redirects to an invalid URL ({error})", REDIRECT_TRIES) from error
    before, after = origin_of(request.url), origin_of(url)
    if before.scheme == "https" and after.scheme != "https":
        raise AddressRefused(
            f"{public(request.url)} redirects from https to plain http ({public(url)}), which is not followed"
        )
    secrets = request.secrets if before == after else {}
    return replace(request, url=url, secrets=secrets, max_redirects=request.max_redirects - 1)


def _target(url: str) -> str:
    found = _TARGET.match(url)
    target = found[1] if found else ""
    return target if target.startswith("/") else f"/{target}"


def _unreachable(url: str, error: Exception) -> Unreachable:
    match error:
        case TimeoutError():
            cause = "no data arrived before the timeout"
        case IncompleteBody(missing_bytes=missing) if missing:
            cause = f"the response ended {missing} bytes early"
        case IncompleteBody():
            cause = "the response ended early"
        case EOFError():
            cause = "the server closed the connection without a response"
        case RemoteProtocolError():
            cause = f"the response is not valid HTTP ({error})"
        case _:
            cause = str(error)
    return Unreachable(f"{public(url)}: {cause}")
