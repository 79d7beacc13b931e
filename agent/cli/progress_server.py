"""Serves the progress of a download to any client: one line of JSON, then it closes. Requests are not read."""

import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self

import msgspec
import structlog

from agent.transfer.progress import Progress
from shared.download_report import DownloadProgress

_SEND_S = 1.0
_log = structlog.get_logger()


class ProgressServer:
    """Serves within a `with` block; if the port cannot be opened, only the progress is missing.

    Args:
        progress: The download.
        port: Port on all addresses of the pod; 0 for none.
    """

    def __init__(self, progress: Progress, port: int) -> None:
        self._progress, self._port = progress, port
        self._socket: socket.socket | None = None

    def __enter__(self) -> Self:
        """Start serving."""
        if self._port:
            try:
                self._socket = _listening(self._port)
            except OSError as error:
                _log.warning("progress_not_served", port=self._port, error=str(error))
            else:
                threading.Thread(target=self._serve, args=(self._socket,), name="progress", daemon=True).start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """Stop serving."""
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits for a connection
            self._socket.close()

    def _serve(self, listening: socket.socket) -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return  # closed
            with suppress(OSError), connection:
                connection.settimeout(_SEND_S)
                now = DownloadProgress(self._progress.done, self._progress.total)
                connection.sendall(msgspec.json.encode(now) + b"\n")


def _listening(port: int) -> socket.socket:
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", port))
