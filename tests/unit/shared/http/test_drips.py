"""Responses that arrive byte by byte, or never end."""

import socket
import threading
from collections.abc import Callable, Iterator
from itertools import repeat

import pytest

from shared.http.bodies import body_of
from shared.http.connection import Connection
from shared.http.heads import RemoteProtocolError, parse_head

CHUNKED = parse_head(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked", "GET")
Drip = Callable[..., Connection]


@pytest.fixture
def drip() -> Iterator[Drip]:
    """Return a connection with a time-out (one second), which receives one of these parts every 0.05 s."""
    ended, ends, threads = threading.Event(), list[socket.socket](), list[threading.Thread]()

    def send(far: socket.socket, parts: Iterator[bytes]) -> None:
        for part in parts:
            if ended.wait(0.05):
                return
            far.sendall(part)

    def make(parts: Iterator[bytes], timeout_s: float = 1.0) -> Connection:
        near, far = socket.socketpair()
        ends.extend((near, far))
        threads.append(threading.Thread(target=send, args=(far, parts)))
        threads[-1].start()
        return Connection(near, timeout_s)

    yield make
    ended.set()
    for thread in threads:
        thread.join()
    for end in ends:
        end.close()


def test_a_head_that_arrives_too_slowly_times_out(drip: Drip) -> None:
    with pytest.raises(TimeoutError):
        drip(repeat(b"x")).read_head()


def test_a_chunk_length_that_arrives_too_slowly_times_out(drip: Drip) -> None:
    with pytest.raises(TimeoutError):
        drip(repeat(b"0")).read_line()


def test_endless_trailers_are_not_waited_for(drip: Drip) -> None:
    body = body_of(CHUNKED, drip(iter([b"1\r\na\r\n0\r\n", *[b"X: y\r\n"] * 1000])))
    buffer = memoryview(bytearray(10))
    assert [body.read_once(buffer), body.read_once(buffer), body.read_once(buffer)] == [1, 0, 0]
    assert not body.ended  # so that the connection is not reused


@pytest.mark.parametrize("size", [b"zz", b"-5", b"+5", b"0x5", b"1_0", b"", b"f" * 16])
def test_an_invalid_chunk_length_is_refused(drip: Drip, size: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        body_of(CHUNKED, drip(iter([size + b"\r\nabcde\r\n"]), 60)).read_once(memoryview(bytearray(10)))


@pytest.mark.parametrize("length", [b"9" * 19, b"9" * 5000, b"\xb2", b"-1", b"+1", b"1_0"])
def test_an_invalid_content_length_is_refused(length: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        parse_head(b"HTTP/1.1 200 OK\r\nContent-Length: " + length, "GET")
