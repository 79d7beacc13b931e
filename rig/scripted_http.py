"""An HTTP/1.1 server that sends exactly the given bytes, so that responses can be false, truncated or stalled."""

import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from io import BufferedReader

_PART_BYTES = 64 * 1024
_NO_LINGER = struct.pack("ii", 1, 0)


@dataclass(frozen=True, slots=True)
class ScriptedRequest:
    """One request; header names are in lower case."""

    method: str
    target: str
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


class Reset(bytes):
    """A response after which the connection is reset, so that unread bytes are lost."""


Answer = Callable[[ScriptedRequest], bytes]


def reply(status: int, body: bytes = b"", **headers: str) -> bytes:
    """Return the bytes of a response; `_` in a header name becomes `-`; Content-Length is correct unless given."""
    fields = {"Content-Length": str(len(body)), **{name.replace("_", "-"): value for name, value in headers.items()}}
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items() if value)
    return f"HTTP/1.1 {status} Scripted\r\n{lines}\r\n".encode() + body


class ScriptedServer:
    """A listening socket on loopback; records every request in `asked` and sends what `answer` returns.

    An empty answer closes the connection, a `Reset` resets it; `connections` counts accepted connections.
    """

    def __init__(self, answer: Answer, tls: ssl.SSLContext | None = None) -> None:
        self.answer = answer
        self.asked: list[ScriptedRequest] = []
        self.connections = 0
        self._tls = tls
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def drop_connections(self) -> None:
        """Close all connections, as servers do with idle ones."""
        for connection in self._open:
            with suppress(OSError):
                socket.socket.shutdown(connection, socket.SHUT_RDWR)  # not TLS's own: its thread still uses it

    def close(self) -> None:
        """Stop listening and end all threads."""
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._threads[0].join()
        self.drop_connections()
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self.connections += 1
            with suppress(OSError):  # the client has gone already
                connection = self._wrapped(connection)
                self._open.append(connection)
                thread = threading.Thread(target=self._serve, args=(connection,))
                self._threads.append(thread)
                thread.start()

    def _wrapped(self, connection: socket.socket) -> socket.socket:
        """Return the connection to use instead: with TLS, if configured, whose handshake has not begun."""
        if self._tls is None:
            return connection
        return self._tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            if isinstance(connection, ssl.SSLSocket):
                connection.do_handshake()
            with connection.makefile("rb") as lines:
                while asked := _read(lines):
                    self.asked.append(asked)
                    body = self.answer(asked)
                    if not body:
                        return
                    for start in range(0, len(body), _PART_BYTES):
                        connection.sendall(body[start : start + _PART_BYTES])
                    if isinstance(body, Reset):
                        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
                        return
                    if b"connection: close" in body.partition(b"\r\n\r\n")[0].lower():
                        return


def _read(lines: BufferedReader) -> ScriptedRequest | None:
    first = next(lines, b"").decode("latin-1").split()
    if not first:
        return None
    headers: dict[str, str] = {}
    for line in lines:
        name, _, value = line.decode("latin-1").partition(":")
        if not name.strip():
            break
        headers[name.lower()] = value.strip()
    return ScriptedRequest(first[0], first[1], headers, lines.read(int(headers.get("content-length", "0"))))


@contextmanager
def scripted(answer: Answer, tls: ssl.SSLContext | None = None) -> Iterator[ScriptedServer]:
    """Run a server for a block."""
    server = ScriptedServer(answer, tls)
    try:
        yield server
    finally:
        server.close()
