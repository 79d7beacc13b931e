"""One connection: sends requests, reads heads, and reads bodies straight into the buffer of the caller."""

import socket
import ssl
import struct
import time
from contextlib import suppress

from shared.http.heads import RemoteProtocolError
from shared.http.proxies import Proxy

_MAX_HEAD_BYTES = 64 * 1024
_AHEAD_BYTES = 16 * 1024
_MAX_LINE_BYTES = 1024
_END = b"\r\n\r\n"
MOMENT_S = 0.25  # a read returns what it has after this long, so that a slow transfer is visible from outside
_LARGE_BYTES = 2**20
_RTT, _RTT_OFFSET, _NEAR_US = struct.Struct("I"), 68, 3000  # tcpi_rtt of struct tcp_info, in microseconds
_AT_A_TIME_BYTES = 128 * 1024  # largest single wait for a body: few calls, and it fits the CPU cache


class Connection:
    """A socket and its read-ahead buffer. Every method may raise OSError.

    A plain socket blocks in the kernel, which costs less than polling before each read.

    Args:
        timeout_s: The longest pause without a byte sent or received, in seconds.
        via: The proxy that receives the requests instead of the origin, if there is one.
    """

    __slots__ = ("_ahead", "_is_plain", "_reads_large", "_socket", "_timeout_s", "via")

    def __init__(self, connected: socket.socket, timeout_s: float, via: Proxy | None = None) -> None:
        self._socket, self._timeout_s, self._ahead, self.via = connected, timeout_s, b"", via
        self._is_plain, self._reads_large = not isinstance(connected, ssl.SSLSocket), False
        if self._is_plain:
            connected.settimeout(None)
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _timeval(min(MOMENT_S, timeout_s)))
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _timeval(timeout_s))
        else:
            connected.settimeout(timeout_s)

    @property
    def is_quiet(self) -> bool:
        """Whether no unsolicited bytes have arrived."""
        return not self._ahead

    def send(self, data: bytes) -> None:
        """Send a request."""
        try:
            self._socket.sendall(data)
        except BlockingIOError as error:
            raise TimeoutError from error

    def expect(self, size_bytes: int) -> None:
        """Announce how many bytes of a body follow; 0 after the body."""
        is_large = self._is_plain and size_bytes >= _LARGE_BYTES
        if is_large != self._reads_large:
            self._reads_large = is_large
            least = _AT_A_TIME_BYTES if is_large and _is_near(self._socket) else 1
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, least)

    def read_head(self) -> bytes:
        """Return the next head without the blank line at its end.

        Raises RemoteProtocolError, or EOFError if none arrives.
        """
        text, seen = bytearray(self._ahead), 0
        until = self._until()
        while (at := text.find(_END, max(0, seen - len(_END)))) < 0:
            if len(text) > _MAX_HEAD_BYTES:
                raise RemoteProtocolError("the headers are too long")
            seen = len(text)
            text += self._read_part(until)
        self._ahead = bytes(text[at + len(_END) :])
        return bytes(text[:at])

    def readinto(self, buffer: memoryview) -> int:
        """Read what has arrived, as far as it fits; 0 at the end of the connection."""
        if not self._ahead:
            return self._receive(buffer)
        size = min(len(buffer), len(self._ahead))
        buffer[:size] = self._ahead[:size]
        self._ahead = self._ahead[size:]
        return size

    def read_line(self) -> bytes:
        """Return the next line without its line break.

        Raises RemoteProtocolError, or EOFError if the connection ends within the line.
        """
        until = self._until()
        while (at := self._ahead.find(b"\r\n")) < 0:
            if len(self._ahead) > _MAX_LINE_BYTES:
                raise RemoteProtocolError("a line is too long")
            self._ahead += self._read_part(until)
        line, self._ahead = self._ahead[:at], self._ahead[at + 2 :]
        return line

    def close(self) -> None:
        """Close the connection, even while another thread reads from it."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _until(self) -> float:
        return time.monotonic() + self._timeout_s

    def _read_part(self, until: float) -> bytes:
        if time.monotonic() >= until:  # otherwise every byte of a slow head would restart the timeout
            raise TimeoutError
        part = bytearray(_AHEAD_BYTES)
        size = self._receive(memoryview(part))
        if not size:
            raise EOFError
        return bytes(part[:size])

    def _receive(self, buffer: memoryview) -> int:
        until = 0.0
        while True:
            try:
                return self._socket.recv_into(buffer)
            except BlockingIOError as error:  # nothing arrived in time
                until = until or time.monotonic() + self._timeout_s - MOMENT_S
                if time.monotonic() >= until:
                    raise TimeoutError from error


def _timeval(seconds: float) -> bytes:
    whole = int(seconds)
    return struct.pack("ll", whole, round((seconds - whole) * 1_000_000))


def _is_near(connected: socket.socket) -> bool:
    """Return whether round trips are short; over long ones, waiting for large reads halves the rate."""
    try:
        info = connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _RTT.size + _RTT_OFFSET)
    except OSError:
        return False
    return len(info) >= _RTT.size + _RTT_OFFSET and _RTT.unpack_from(info, _RTT_OFFSET)[0] < _NEAR_US
