"""Blocking HTTP/1.1 requests over kept connections, read straight into the buffer of the caller."""

import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from urllib.parse import quote, urljoin

from shared.errors import AddressRefused, InvalidURI, LarderError, RateLimited, Unreachable
from shared.http.bodies import BrokeOff, WireBody, body_of
from shared.http.connections import ConnectionPool
from shared.http.heads import Head, NotHttp, parse_head
from shared.http.origins import Origin, origin_of, public
from shared.http.proxies import Proxy
from shared.http.rate_limited_origins import RateLimitedOrigins
from shared.http.settings import ClientSettings
from shared.http.wire import MOMENT_S, Wire

REDIRECT_TRIES = 1  # a server with a bad redirect sends the same one a second later
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_STANDARD = ("User-Agent: larder", "Accept-Encoding: identity")
_MOST_ERROR_BYTES = 64 * 1024
_MOST_INTERIM = 20
_ERROR_S = 10.0  # seconds to read the body of an error
_ANSWER_S = 60.0  # seconds to read a whole answer that is not a file, however slowly it arrives
_NOT_A_LINE = re.compile("[\r\n\0]|[^\0-\xff]")
_NOT_A_TARGET = re.compile(r"[\s\0]")  # either would start a second request line
_TARGET = re.compile(r"[^:/?#]+://[^/?#]*([^#]*)")  # path and query
_NOT_URL = re.compile(r"[^!-~]")


@dataclass(frozen=True, slots=True)
class Call:
    """One request.

    Args:
        url: An http or https URL.
        method: The HTTP method.
        headers: Headers that go to every origin, redirects included.
        secrets: Headers that never go to another origin.
        redirects: How many more redirects may be followed.
        follow: Whether redirects are followed at all.
        body: Sent with its length; a request with a body never follows redirects.
    """

    url: str
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    redirects: int = 5
    follow: bool = True
    body: bytes = field(default=b"", repr=False)


class Reply:
    """A response: status, headers and a body that is read in parts. Close it when done."""

    def __init__(
        self, url: str, head: Head, body: WireBody, release: Callable[[bool], None], clock: Callable[[], float]
    ) -> None:
        self.url, self.status, self.headers = url, head.status, head.headers
        self._keeps, self._body, self._release, self._clock = head.keeps, body, release, clock
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
            except (OSError, EOFError, NotHttp) as error:
                self._failure = _unreachable(self.url, error)
                break
            filled += size
            if size == 0 or self._body.ended or self._clock() >= until:
                break
        if filled == 0 and self._failure is not None:
            raise self._failure
        return filled

    def read_all(self, most_bytes: int) -> bytes:
        """Return the whole body and close the response; raises Unreachable if it breaks off or is too long."""
        parts, left = [], most_bytes + 1
        buffer = memoryview(bytearray(min(left, _MOST_ERROR_BYTES)))
        until = self._clock() + _ANSWER_S
        try:
            while left and (size := self.readinto(buffer[:left])):
                parts.append(bytes(buffer[:size]))
                left -= size
                if self._clock() >= until:
                    raise Unreachable(f"{public(self.url)}: the answer is not here after {_ANSWER_S:.0f} seconds")
        finally:
            self.close()
        if not left:
            raise Unreachable(f"{public(self.url)}: the answer is longer than {most_bytes} bytes")
        return b"".join(parts)

    def read_small(self) -> bytes:
        """Return the body of an error or a short answer, truncated to 64 KiB."""
        body = bytearray(_MOST_ERROR_BYTES)
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
            self._release(self._body.ended and self._keeps and self._failure is None)


class HttpClient:
    """A client that follows redirects itself: at most `Call.redirects`, never to plain http, never with secrets."""

    def __init__(self, settings: ClientSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._pool, self._clock, self._holds = ConnectionPool(settings, clock), clock, RateLimitedOrigins(clock)

    def send(self, call: Call) -> Reply:
        """Send a request and return the final response, whatever its status.

        Raises:
            RateLimited: The origin asks for a pause; raised for every later request to it until the pause ends.
            Unreachable: No response arrives, or it is not HTTP.
            AddressRefused: The host resolves to a forbidden address, or a redirect leads to one.
        """
        origin = origin_of(call.url)
        self._holds.check(origin, call.url)
        reply = self._send_once(origin, call)
        try:
            self._holds.note(origin, call.url, reply.status, reply.headers)
        except RateLimited:
            reply.read_small()
            reply.close()
            raise
        if reply.status not in _REDIRECTS or not call.follow or call.body:
            return reply
        location = reply.headers.get("Location", "")
        reply.read_small()
        reply.close()
        return self.send(decide_redirect(call, reply.status, location))

    def check_hold(self, url: str) -> None:
        """Raise RateLimited if the origin of a URL has asked for a pause; for requests sent by other clients."""
        self._holds.check(origin_of(url), url)

    def note_hold(self, url: str, status: int, headers: Mapping[str, str]) -> None:
        """Raise RateLimited if a response to another client asks for a pause; it holds back later requests too."""
        self._holds.note(origin_of(url), url, status, headers)

    def close(self) -> None:
        """Close all kept connections."""
        self._pool.close()

    def _send_once(self, origin: Origin, call: Call) -> Reply:
        wire, reused = self._pool.lease(origin)
        try:
            return self._exchange(origin, wire, call)
        except (OSError, EOFError, NotHttp) as error:
            wire.close()
            # A server may close a kept connection at any time, which says nothing about the request.
            if not reused or isinstance(error, TimeoutError | NotHttp):
                raise _unreachable(call.url, error) from error
        wire = self._pool.open(origin)
        try:
            return self._exchange(origin, wire, call)
        except (OSError, EOFError, NotHttp) as error:
            wire.close()
            raise _unreachable(call.url, error) from error

    def _exchange(self, origin: Origin, wire: Wire, call: Call) -> Reply:
        try:
            request = _request(origin, call, wire.via)
        except InvalidURI:
            wire.close()
            raise
        wire.send(request)
        head = _final_head(wire, call.method)

        def release(keep: bool) -> None:  # noqa: FBT001 - a callback of one answer
            if keep and wire.is_quiet:
                self._pool.give_back(origin, wire)
            else:
                wire.close()

        return Reply(call.url, head, body_of(head, wire), release, self._clock)


def _final_head(wire: Wire, method: str) -> Head:
    for _ in range(_MOST_INTERIM):
        head = parse_head(wire.read_head(), method)
        if head.status >= HTTPStatus.OK:
            return head  # earlier heads are interim: 100 Continue or 103 Early Hints
    raise NotHttp("interim answers without an end")


def _request(origin: Origin, call: Call, proxy: Proxy | None) -> bytes:
    target = f"http://{origin.netloc}{_target(call.url)}" if proxy else _target(call.url)
    lines = [f"{call.method} {target} HTTP/1.1", f"Host: {origin.netloc}", *_STANDARD]
    if proxy and proxy.authorization:
        lines.append(f"Proxy-Authorization: {proxy.authorization}")
    length = {"Content-Length": str(len(call.body))} if call.body else {}
    lines += [f"{name}: {value}" for name, value in {**length, **call.headers, **call.secrets}.items()]
    if _NOT_A_LINE.search("".join(lines)) or _NOT_A_TARGET.search(target):
        raise InvalidURI(
            f"{public(call.url)}: a line break, or what no header can hold, stands in the request; correct the URI or "
            "the credentials"
        )
    return "\r\n".join((*lines, "", "")).encode("latin-1") + call.body


def decide_redirect(call: Call, status: int, location: str) -> Call:
    """Return the request for a redirect, without secrets if it leads to another origin."""
    if not location:
        raise Unreachable(f"{public(call.url)} answered {status} without saying where to go", REDIRECT_TRIES)
    if call.redirects == 0:
        raise Unreachable(f"{public(call.url)} redirects too often", REDIRECT_TRIES)
    try:
        url = urljoin(call.url, _NOT_URL.sub(lambda c: quote(c.group().encode("latin-1", "replace")), location))
    except ValueError as error:
        raise Unreachable(f"{public(call.url)} redirects to what is no URL ({error})", REDIRECT_TRIES) from error
    before, after = origin_of(call.url), origin_of(url)
    if before.scheme == "https" and after.scheme != "https":
        raise AddressRefused(f"{public(call.url)} redirects to {public(url)}, from https to plain http; not followed")
    secrets = call.secrets if before == after else {}
    return replace(call, url=url, secrets=secrets, redirects=call.redirects - 1)


def _target(url: str) -> str:
    found = _TARGET.match(url)
    target = found[1] if found else ""
    return target if target.startswith("/") else f"/{target}"


def _unreachable(url: str, error: Exception) -> Unreachable:
    match error:
        case TimeoutError():
            cause = "nothing came before the time-out"
        case BrokeOff(missing_bytes=missing) if missing:
            cause = f"the answer broke off {missing} bytes before its end"
        case BrokeOff():
            cause = "the answer broke off before its end"
        case EOFError():
            cause = "the server closed the connection without an answer"
        case NotHttp():
            cause = f"the answer is not HTTP ({error})"
        case _:
            cause = str(error)
    return Unreachable(f"{public(url)}: {cause}")
