"""How many bytes a read waits for: many only if round trips are short."""

import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from shared.http.connection import Connection

LARGE = 2**30


@pytest.fixture
def near() -> Iterator[socket.socket]:
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.create_connection(listening.getsockname()[:2]) as connected,
        listening.accept()[0],
    ):
        yield connected


def least(connected: socket.socket) -> int:
    return connected.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT)


def test_reads_of_a_large_body_from_nearby_wait_for_more_bytes(
    near: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shared.http.connection._NEAR_US", 10**6)  # on a busy machine, even loopback takes milliseconds
    wire = Connection(near, 5.0)
    wire.expect(LARGE)
    assert least(near) == 128 * 1024
    wire.expect(0)
    assert least(near) == 1


def test_reads_of_a_small_body_return_the_available_bytes(near: socket.socket) -> None:
    Connection(near, 5.0).expect(1000)
    assert least(near) == 1


def test_reads_return_the_available_bytes_without_a_known_round_trip_time() -> None:
    connected, other = socket.socketpair()
    with closing(connected), closing(other):
        Connection(connected, 5.0).expect(LARGE)
        assert least(connected) == 1


def test_reads_return_the_available_bytes_over_long_round_trips(
    near: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shared.http.connection._NEAR_US", 0)
    Connection(near, 5.0).expect(LARGE)
    assert least(near) == 1
