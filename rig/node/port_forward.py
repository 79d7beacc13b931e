"""Forwards loopback ports of this machine to the same loopback ports of another network."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Sequence
from pathlib import Path

from rig.node.namespaces import enter_network
from rig.ports import LOOPBACK
from rig.running import Running

_CHUNK_BYTES = 2**16


class PortForward(Running):
    """Forwards connections from a thread in the other network; use as a context manager."""

    def __init__(self, network: Path, ports: Sequence[int]) -> None:
        self._network = network
        self._listeners = [_listen(port) for port in ports]
        self._carriers: set[asyncio.Task[None]] = set()  # the event loop has only weak references to tasks
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="port-forward")

    def start(self) -> None:
        """Accept connections."""
        self._thread.start()

    def stop(self) -> None:
        """Close all connections and accept no more."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        enter_network(self._network)
        servers = [self._loop.run_until_complete(self._serve(listener)) for listener in self._listeners]
        self._loop.run_forever()
        for server in servers:
            server.close()
        self._loop.run_until_complete(self._end())
        self._loop.close()

    async def _end(self) -> None:
        left = list(self._carriers)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _serve(self, listener: socket.socket) -> asyncio.Server:
        port = int(listener.getsockname()[1])

        def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = self._loop.create_task(_carry(reader, writer, port))
            self._carriers.add(task)
            task.add_done_callback(self._carriers.discard)

        return await asyncio.start_server(carry, sock=listener)


def _listen(port: int) -> socket.socket:
    return socket.create_server((LOOPBACK, port))


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
    with contextlib.suppress(OSError):  # either side may close at any time
        try:
            far_reader, far_writer = await asyncio.open_connection(LOOPBACK, port)
            try:
                await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))
            finally:
                far_writer.close()
        finally:
            writer.close()


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while chunk := await source.read(_CHUNK_BYTES):
        target.write(chunk)
        await target.drain()
    if target.can_write_eof():
        target.write_eof()
