"""Response bodies, one class for each way that their end is marked."""

import re
from typing import Protocol

from shared.http.heads import Head, NotHttp
from shared.http.wire import Wire

_HEX = re.compile(rb"[0-9A-Fa-f]{1,15}")


class BrokeOff(EOFError):
    """The connection ended before the body did; `missing_bytes` is 0 if the length is unknown."""

    def __init__(self, missing_bytes: int = 0) -> None:
        super().__init__()
        self.missing_bytes = missing_bytes


class WireBody(Protocol):
    """Bytes read from a connection; `ended` is set once all are read."""

    ended: bool

    def read_once(self, buffer: memoryview) -> int:
        """Read what comes next; 0 at the end. Raises OSError, BrokeOff, NotHttp."""
        ...


def body_of(head: Head, wire: Wire) -> WireBody:
    """Return the body that follows a response head."""
    if head.length is not None:
        return _Sized(wire, head.length)
    return _Chunked(wire) if head.chunked else _Rest(wire)


class _Sized:
    def __init__(self, wire: Wire, length: int) -> None:
        self._wire, self._left = wire, length
        self.ended = length == 0
        wire.expect(length)

    def read_once(self, buffer: memoryview) -> int:
        if self.ended:
            return 0
        size = self._wire.readinto(buffer[: self._left])
        if not size:
            raise BrokeOff(self._left)
        self._left -= size
        if not self._left:
            self.ended = True
            self._wire.expect(0)
        return size


class _Chunked:
    def __init__(self, wire: Wire) -> None:
        self._wire, self._left = wire, 0
        self.ended, self._has_trailers = False, False

    def read_once(self, buffer: memoryview) -> int:
        if self.ended or self._has_trailers:
            return 0
        try:
            if not self._left and not self._next_chunk():
                return 0
            size = self._wire.readinto(buffer[: self._left])
            if not size:
                raise BrokeOff
            self._left -= size
            if not self._left and self._wire.read_line():
                raise NotHttp("a chunk longer than it says")
        except EOFError as error:
            raise BrokeOff from error
        return size

    def _next_chunk(self) -> bool:
        text = self._wire.read_line().partition(b";")[0].strip()
        if not _HEX.fullmatch(text):
            raise NotHttp("a chunk without a length")
        self._left = int(text, 16)
        if self._left:
            return True
        # Trailers are not used and may never end, so the connection is dropped with them.
        self._has_trailers = bool(self._wire.read_line())
        self.ended = not self._has_trailers
        return False


class _Rest:
    """A body that lasts until the connection closes; `ended` stays False, so the connection is never kept."""

    ended = False

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def read_once(self, buffer: memoryview) -> int:
        return self._wire.readinto(buffer)
