"""A TCP link that can delay what the API server sends, as if watch events reached a busy machine late."""

import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

from rig.ports import LOOPBACK
from rig.running import Running

_BLOCK_BYTES = 64 * 1024


class HeldLink(Running):
    """A running link; use as a context manager. `to` sets its destination."""

    def __init__(self) -> None:
        self._passing = threading.Event()
        self._passing.set()
        self._far = ("", 0)
        link = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                link._carry(self.request)

        self._server = socketserver.ThreadingTCPServer((LOOPBACK, 0), Handler)
        self._server.daemon_threads = True

    def to(self, url: str) -> str:
        """Forward new connections to the host and port of this URL, and return the URL of the link."""
        parts = urlsplit(url)
        self._far = (str(parts.hostname), int(parts.port or 443))
        return parts._replace(netloc=f"{LOOPBACK}:{self._server.server_address[1]}").geturl()

    def start(self) -> None:
        """Start accepting connections."""
        threading.Thread(target=self._server.serve_forever, args=(0.05,), name="held-link", daemon=True).start()

    def stop(self) -> None:
        """Stop accepting connections."""
        self._passing.set()
        self._server.shutdown()
        self._server.server_close()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold back everything that the server sends until the end of the block, then deliver it."""
        self._passing.clear()
        try:
            yield
        finally:
            self._passing.set()

    def _carry(self, near: socket.socket) -> None:
        with socket.create_connection(self._far) as far:
            upward = threading.Thread(target=_copy, args=(near, far), daemon=True)
            upward.start()
            _copy(far, near, self._passing)
            upward.join()


def _copy(source: socket.socket, sink: socket.socket, passing: threading.Event | None = None) -> None:
    with suppress(OSError):  # either end may close at any time
        while data := source.recv(_BLOCK_BYTES):
            if passing is not None:
                passing.wait()
            sink.sendall(data)
    for end in (source, sink):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
