"""Sends the head and the body of a response together, instead of with one system call and one TLS record each."""

import asyncio
from typing import Any

_MAX_WAITING_BYTES = 64 * 2**10


class JoinedWrites:
    """A transport that buffers data until the next iteration of the event loop, or until 64 KiB are waiting."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._waiting: list[bytes] = []
        self._size = 0

    def write(self, data: bytes) -> None:
        """Send data soon, in the order of the calls."""
        if not data:
            return
        if not self._waiting:
            self._loop.call_soon(self._flush)
        self._waiting.append(data)
        self._size += len(data)
        if self._size > _MAX_WAITING_BYTES:
            self._flush()

    def close(self) -> None:
        """Send the buffered data, and close."""
        self._flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever else a transport has
        return getattr(self._transport, name)

    def _flush(self) -> None:
        waiting, self._waiting, self._size = self._waiting, [], 0
        if waiting and not self._transport.is_closing():
            self._transport.write(waiting[0] if len(waiting) == 1 else b"".join(waiting))
