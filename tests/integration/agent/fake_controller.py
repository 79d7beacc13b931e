"""The controller's API over real TLS, with answers that the test sets; everything else about the agent is real."""

import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
import trustme

from shared.api.wire import ClaimCredentials, CredentialsRequest, CredentialsResponse, Problem, ProgressReport
from shared.manifest import Manifest


class FakeController:
    """Serves manifests and credentials to callers with the token, and stores reported progress."""

    def __init__(self, ca: trustme.CA, token: str) -> None:
        self.token = token
        self.manifests: dict[str, bytes] = {}
        self.grants: dict[tuple[str, str], tuple[ClaimCredentials, ...]] = {}
        self.refusals: dict[str, Problem] = {}  # by path
        self.progress: list[ProgressReport] = []
        self.asked: list[str] = []
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        ca.issue_cert("127.0.0.1").configure_cert(context)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self._server.stand_in = self  # type: ignore[attr-defined]  # how a handler finds its owner
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    @property
    def url(self) -> str:
        """The URL of the API."""
        return f"https://127.0.0.1:{self._server.server_port}"

    def offer(self, manifest: Manifest) -> str:
        """Serve a manifest, and return its digest."""
        self.manifests[manifest.digest] = manifest.encode()
        return manifest.digest

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 30

    @property
    def _owner(self) -> FakeController:
        owner: FakeController = self.server.stand_in  # type: ignore[attr-defined]  # set above
        return owner

    def do_GET(self) -> None:
        digest = self.path.rpartition("/")[2]
        body = self._owner.manifests.get(digest)
        if not self._refused():
            self._answer(200 if body else 404, body or msgspec.json.encode(Problem("", f"no manifest {digest}")))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self._refused():
            return
        if self.path == "/v1/progress":
            self._owner.progress.append(msgspec.json.decode(body, type=ProgressReport))
            self._answer(204, b"")
            return
        wanted = msgspec.json.decode(body, type=CredentialsRequest)
        grants = self._owner.grants.get((wanted.id, wanted.revision), ())
        self._answer(200, msgspec.json.encode(CredentialsResponse(grants)))

    def _refused(self) -> bool:
        self._owner.asked.append(self.path)
        problem = self._owner.refusals.get(self.path)
        if self.headers["Authorization"] != f"Bearer {self._owner.token}":
            problem = Problem("NotGranted", "the token is not good")
        if problem:
            self._answer(403, msgspec.json.encode(problem))
        return problem is not None

    def _answer(self, code: int, body: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the library's
        """Log nothing."""


def write_ca(ca: trustme.CA, path: Path) -> Path:
    """Write the CA's certificate, and return the path."""
    path.write_bytes(ca.cert_pem.bytes())
    return path
