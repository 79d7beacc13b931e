"""Response bodies, one class for each way to mark the end of a body."""

import re
from typing import Protocol

from shared.http.connection import Connection
from shared.http.heads import Head, RemoteProtocolError

_HEX = re.compile(rb"[0-9A-Fa-f]{1,15}")


class IncompleteBody(EOFError):
    """The connection ended before the body did; `missing_bytes` is 0 if the length is unknown."""

    def __init__(self, missing_bytes: int = 0) -> None:
        super().__init__()
        self.missing_bytes = missing_bytes


class WireBody(Protocol):
    """Bytes read from a connection; `ended` is set once all are read."""

    ended: bool

    def read_once(self, buffer: memoryview) -> int:
        """Read the next bytes of the body.

        Args:
            buffer: Receives the bytes at its start.

        Returns:
            The number of bytes read; 0 at the end of the body.

        Raises:
            OSError: The connection failed or timed out.
            IncompleteBody: The connection was closed before the end.
            RemoteProtocolError: The framing of the body is invalid.
        """
        ...


def body_of(head: Head, connection: Connection) -> WireBody:
    """Return the body that follows a response head."""
    if head.length is not None:
        return _Sized(connection, head.length)
    return _Chunked(connection) if head.chunked else _Rest(connection)


class _Sized:
    def __init__(self, connection: Connection, length: int) -> None:
        self._connection, self._left = connection, length
        self.ended = length == 0
        connection.expect(length)

    def read_once(self, buffer: memoryview) -> int:
        if self.ended:
            return 0
        size = self._connection.readinto(buffer[: self._left])
        if not size:
            raise IncompleteBody(self._left)
        self._left -= size
        if not self._left:
            self.ended = True
            self._connection.expect(0)
        return size


class _Chunked:
    def __init__(self, connection: Connection) -> None:
        self._connection, self._left = connection, 0
        self.ended, self._has_trailers = False, False

    def read_once(self, buffer: memoryview) -> int:
        if self.ended or self._has_trailers:
            return 0
        try:
            if not self._left and not self._next_chunk():
                return 0
            size = self._connection.readinto(buffer[: self._left])
            if not size:
                raise IncompleteBody
            self._left -= size
            if not self._left and self._connection.read_line():
                raise RemoteProtocolError("a chunk is longer than announced")
        except EOFError as error:
            raise IncompleteBody from error
        return size

    def _next_chunk(self) -> bool:
        text = self._connection.read_line().partition(b";")[0].strip()
        if not _HEX.fullmatch(text):
            raise RemoteProtocolError("a chunk has no length")
        self._left = int(text, 16)
        if self._left:
            return True
        # Trailers are not used and may never end, so the connection is dropped with them.
        self._has_trailers = bool(self._connection.read_line())
        self.ended = not self._has_trailers
        return False


class _Rest:
    """A body that lasts until the connection closes; `ended` stays False, so the connection is never kept."""

    ended = False

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def read_once(self, buffer: memoryview) -> int:
        return self._connection.readinto(buffer)
