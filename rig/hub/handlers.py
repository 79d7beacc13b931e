"""The sockets of the hub: reads requests, sends responses, injects faults."""

import contextlib
import socket
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Protocol
from urllib.parse import parse_qs, urlsplit

from rig.hub.answers import Answer, HubRequest, Places, answer, bearer
from rig.hub.faults import Corrupt, Faults, Refuse, Stall, Truncate
from rig.hub.journal import Journal, JournalEntry
from rig.hub.ranges import Unsatisfiable, parse_range
from rig.hub.repository import Repositories, RepositoryFile


class HubState(Protocol):
    """The parts of the hub that the handlers need."""

    faults: Faults
    journal: Journal

    @property
    def places(self) -> Places:
        """The addresses and settings for responses."""

    @property
    def repositories(self) -> Repositories:
        """The pushed repositories."""


class Listener(ThreadingHTTPServer):
    """A threaded server that closes its connections when it stops."""

    daemon_threads = False
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler], served: HubState) -> None:
        super().__init__(address, handler)
        self.served = served
        self._connections: set[socket.socket] = set()

    @property
    def url(self) -> str:
        """The address it listens on."""
        return f"http://{self.server_address[0]!s}:{self.server_address[1]}"

    def stop(self) -> None:
        """Refuse new connections, close open ones, and wait for their threads."""
        self.shutdown()
        for connection in list(self._connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self.server_close()

    def process_request(self, request: socket.socket, client_address: tuple[str, int]) -> None:  # type: ignore[override]  # typeshed allows datagrams too
        """Register a connection before its thread starts, so that stop() finds all of them."""
        self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: socket.socket) -> None:  # type: ignore[override]  # as above
        """Unregister a connection that ends."""
        self._connections.discard(request)
        super().shutdown_request(request)

    def finish_request(self, request: socket.socket, client_address: tuple[str, int]) -> None:  # type: ignore[override]  # as above
        """Serve one connection until either side ends it."""
        with contextlib.suppress(ConnectionError):
            super().finish_request(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    host = ""
    server: Listener

    @property
    def served(self) -> HubState:
        return self.server.served

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the standard library's
        """Log nothing, because the journal records requests."""

    def do_GET(self) -> None:
        """Record the request, and answer it or inject a refusal."""
        parts = urlsplit(self.path)
        authorization = self.headers.get("Authorization")
        seen = JournalEntry(self.host, self.command, parts.path, parts.query, authorization, self.headers.get("Range"))
        self.served.journal.add(seen)
        refusal = self.served.faults.take_refusal(parts.path)
        self._send(_refused(refusal) if refusal else self.answer(seen))

    do_HEAD = do_GET  # noqa: N815 - the name is the standard library's

    def answer(self, seen: JournalEntry) -> Answer:
        """Return the answer to a request that no fault refuses."""
        raise NotImplementedError

    def _send(self, reply: Answer) -> None:
        if isinstance(reply.body, RepositoryFile):
            self._send_content(reply, reply.body)
            return
        self._head(reply.status, {**reply.headers, "Content-Length": str(len(reply.body))})
        if self.command != "HEAD":
            self.wfile.write(reply.body)

    def _send_content(self, reply: Answer, entry: RepositoryFile) -> None:
        held = entry.content.stat().st_size
        try:
            wanted = parse_range(self.headers.get("Range"), held)
        except Unsatisfiable:
            self._head(
                HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, {"Content-Range": f"bytes */{held}", "Content-Length": "0"}
            )
            return
        start, end = wanted or (0, held)
        headers = {**reply.headers, "Content-Length": str(end - start), "Content-Type": "application/octet-stream"}
        if wanted:
            headers["Content-Range"] = f"bytes {start}-{end - 1}/{held}"
        self._head(HTTPStatus.PARTIAL_CONTENT if wanted else reply.status, headers)
        if self.command != "HEAD":
            self._send_bytes(entry, start, end)

    def _send_bytes(self, entry: RepositoryFile, start: int, end: int) -> None:
        self.wfile.flush()
        fault = self.served.faults.take_body_fault(urlsplit(self.path).path)
        match fault:
            case Truncate(after) | Stall(after):
                self._copy(entry, start, min(end, start + after))
                if isinstance(fault, Stall):
                    self.served.faults.wait_cleared()
                self.close_connection = True
            case Corrupt(offset) if start <= offset < end:
                self._copy(entry, start, offset)
                with entry.content.open("rb") as file:
                    file.seek(offset)
                    self.wfile.write(bytes([file.read(1)[0] ^ 0xFF]))
                self._copy(entry, offset + 1, end)
            case _:
                self._copy(entry, start, end)

    def _copy(self, entry: RepositoryFile, start: int, end: int) -> None:
        if end > start:
            with entry.content.open("rb") as file:
                self.connection.sendfile(file, start, end - start)

    def _head(self, status: HTTPStatus, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()


class HubHandler(_Handler):
    """Handles requests to the API host."""

    host = "hub"

    def answer(self, seen: JournalEntry) -> Answer:
        """Answer as the hub would."""
        asked = HubRequest(seen.path, seen.query, bearer(seen.authorization))
        return answer(asked, self.served.repositories, self.served.places)


class StoreHandler(_Handler):
    """Handles requests to the store: a signed link grants access, and an extra token is refused, as S3 does."""

    host = "cdn"

    def answer(self, seen: JournalEntry) -> Answer:
        """Answer like an object store behind signed links."""
        if seen.authorization:
            return Answer(HTTPStatus.BAD_REQUEST, {}, b"Only one auth mechanism allowed")
        if parse_qs(seen.query).get("Signature") != [self.served.places.signature]:
            return Answer(HTTPStatus.FORBIDDEN, {}, b"Request has expired")
        entry = self.served.repositories.content(seen.path.strip("/"))
        if entry is None:
            return Answer(HTTPStatus.NOT_FOUND, {}, b"NoSuchKey")
        return Answer(HTTPStatus.OK, {"ETag": f'"{entry.etag}"', "Accept-Ranges": "bytes"}, entry)


def _refused(refusal: Refuse) -> Answer:
    headers = {} if refusal.retry_after_s is None else {"Retry-After": f"{refusal.retry_after_s:g}"}
    return Answer(HTTPStatus(refusal.status), headers, b"refused on demand")
