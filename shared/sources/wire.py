"""One connection: requests go out, heads and bytes of bodies come in, the bytes straight into the caller's buffer."""

import socket
from contextlib import suppress

from shared.sources.heads import NotHttp

_MOST_HEAD_BYTES = 64 * 1024
_AHEAD_BYTES = 16 * 1024
_MOST_LINE_BYTES = 1024
_END = b"\r\n\r\n"


class Wire:
    """A socket, and what was read of it ahead of being asked for. Every method may raise OSError."""

    __slots__ = ("_ahead", "_socket")

    def __init__(self, connected: socket.socket) -> None:
        self._socket, self._ahead = connected, b""

    @property
    def is_quiet(self) -> bool:
        """Whether nothing came that nobody asked for."""
        return not self._ahead

    def send(self, request: bytes) -> None:
        """Send a request."""
        self._socket.sendall(request)

    def read_head(self) -> bytes:
        """Return the next head, without the blank line at its end. Raises NotHttp; EOFError where none comes."""
        text, at = self._ahead, -1
        while (at := text.find(_END)) < 0:
            if len(text) > _MOST_HEAD_BYTES:
                raise NotHttp("a head without an end")
            part = self._socket.recv(_AHEAD_BYTES)
            if not part:
                raise EOFError
            text += part
        self._ahead = text[at + len(_END) :]
        return text[:at]

    def readinto(self, buffer: memoryview) -> int:
        """Take what has come, at most what fits; 0 at the connection's end."""
        if not self._ahead:
            return self._socket.recv_into(buffer)
        size = min(len(buffer), len(self._ahead))
        buffer[:size] = self._ahead[:size]
        self._ahead = self._ahead[size:]
        return size

    def read_line(self) -> bytes:
        """Return the next line without its end. Raises NotHttp; EOFError where the connection ends in it."""
        while (at := self._ahead.find(b"\r\n")) < 0:
            if len(self._ahead) > _MOST_LINE_BYTES:
                raise NotHttp("a line without an end")
            part = self._socket.recv(_AHEAD_BYTES)
            if not part:
                raise EOFError
            self._ahead += part
        line, self._ahead = self._ahead[:at], self._ahead[at + 2 :]
        return line

    def close(self) -> None:
        """End the connection, also for who reads from it now."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
