import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from shared.http.connection_pool import ConnectionPool
from shared.http.origins import Origin
from shared.sources.settings import SourceSettings


class Server:
    """Accepts connections at every loopback address; `kept` counts those that the pool has not closed."""

    def __init__(self, closing: ExitStack) -> None:
        self._listening = closing.enter_context(socket.create_server(("", 0)))
        self._port: int = self._listening.getsockname()[1]
        self._accepted: list[socket.socket] = []
        self._closing = closing

    def origin(self, number: int) -> Origin:
        """Return one of many origins that lead here."""
        return Origin("http", f"127.0.1.{number + 1}", self._port)

    def keep(self, pool: ConnectionPool, origin: Origin) -> None:
        """Open a connection and keep it in the pool."""
        pool.release(origin, pool.open(origin))
        accepted = self._closing.enter_context(self._listening.accept()[0])
        accepted.settimeout(0)
        self._accepted.append(accepted)

    @property
    def kept(self) -> list[bool]:
        return [_is_open(accepted) for accepted in self._accepted]


def _is_open(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) != b""
    except BlockingIOError:
        return True


@pytest.fixture
def server() -> Iterator[Server]:
    with ExitStack() as closing:
        yield Server(closing)


@pytest.fixture
def now() -> list[float]:
    return [0.0]


@pytest.fixture
def pool(now: list[float]) -> Iterator[ConnectionPool]:
    pool = ConnectionPool(SourceSettings(allow_addresses=("127.0.0.0/8",)), lambda: now[0])
    yield pool
    pool.close()


def test_the_connections_kept_for_many_origins_are_bounded(server: Server, pool: ConnectionPool) -> None:
    """A server that redirects each file to another origin could otherwise use up the open files of a program."""
    for number in range(150):
        server.keep(pool, server.origin(number))
    assert server.kept == [False] * 22 + [True] * 128
    for number, is_kept in ((149, True), (0, False)):
        connection, reused = pool.lease(server.origin(number))
        assert reused == is_kept
        connection.close()


def test_connections_to_an_origin_that_is_not_asked_again_are_closed(
    server: Server, pool: ConnectionPool, now: list[float]
) -> None:
    server.keep(pool, server.origin(0))
    now[0] = 19.0
    server.keep(pool, server.origin(1))
    assert server.kept == [True, True]
    now[0] = 20.0
    server.keep(pool, server.origin(2))
    assert server.kept == [False, True, True]
