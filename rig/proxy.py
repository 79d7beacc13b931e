"""An HTTP proxy that records requests: tunnels for https, forwarding for http."""

import base64
import http.client
import select
import socket
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import urlsplit

from rig.ports import LOOPBACK
from rig.running import Running

_BLOCK_BYTES = 64 * 1024


class HttpProxy(Running):
    """A running proxy; use as a context manager. `asked` has `METHOD TARGET` of every request.

    `user` is `name:password` if it requires one.
    """

    def __init__(self, user: str = "") -> None:
        super().__init__()
        self.asked: list[str] = []
        self.wanted = f"Basic {base64.b64encode(user.encode()).decode()}" if user else ""
        proxy = self

        class Handler(_Handler):
            served = proxy

        self._server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
        self._server.daemon_threads = True

    @property
    def host(self) -> str:
        """The address of the proxy as HOST:PORT."""
        return f"{LOOPBACK}:{self._server.server_address[1]}"

    def start(self) -> None:
        """Start serving."""
        Thread(target=self._server.serve_forever, args=(0.05,), name="proxy", daemon=True).start()

    def stop(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    served: HttpProxy

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the standard library's
        """Log nothing, because `asked` records requests."""

    def do_CONNECT(self) -> None:
        """Copy bytes both ways until either side closes."""
        if not self._may_pass():
            return
        host, _, port = self.path.rpartition(":")
        with socket.create_connection((host.strip("[]"), int(port))) as far:
            self.send_response(200)
            self.end_headers()
            self._carry(far)
        self.close_connection = True

    def do_GET(self) -> None:
        """Forward the request."""
        if not self._may_pass():
            return
        parts = urlsplit(self.path)
        far = http.client.HTTPConnection(parts.hostname or "", parts.port or 80)
        far.request(self.command, parts._replace(scheme="", netloc="").geturl(), headers=dict(self.headers))
        answer = far.getresponse()
        body = answer.read()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, value)
        self.send_header("Content-Length", answer.headers.get("Content-Length") or str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        far.close()

    do_HEAD = do_GET  # noqa: N815 - the name is the standard library's

    def _may_pass(self) -> bool:
        self.served.asked.append(f"{self.command} {self.path}")
        if self.headers.get("Proxy-Authorization", "") == self.served.wanted:
            return True
        self.send_response(407)
        self.send_header("Content-Length", "0")
        self.end_headers()
        return False

    def _carry(self, far: socket.socket) -> None:
        ends = {self.connection: far, far: self.connection}
        while True:
            readable, _, _ = select.select(list(ends), [], [], 10)
            for end in readable:
                part = end.recv(_BLOCK_BYTES)
                if not part:
                    return
                ends[end].sendall(part)
            if not readable:
                return
