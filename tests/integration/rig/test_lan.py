import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from rig.node.addresses import GATEWAY
from rig.node.lan import Lan
from rig.node.namespaces import OWN, within_network
from rig.node.port_forward import PortForward
from rig.node.prepare import unmet_requirements
from rig.ports import LOOPBACK, free_port


@pytest.fixture
def lan(tmp_path: Path) -> Iterator[Lan]:
    if found := unmet_requirements(os.environ):
        pytest.skip(f"NOT TESTED, networks of one's own: {'; '.join(found)}")
    lan = Lan(tmp_path)
    lan.start()
    yield lan
    lan.stop()


def test_a_thread_returns_to_its_own_network_and_its_sockets_stay_in_the_other(lan: Lan) -> None:
    before = OWN.readlink()
    with within_network(lan.network):
        assert OWN.readlink() != before
        server = socket.create_server((GATEWAY, 0))
    assert OWN.readlink() == before
    with server, pytest.raises(OSError, match=r"timed out|unreachable|refused"):
        socket.create_connection(server.getsockname(), 0.2).close()


def test_a_port_forward_connects_to_the_same_port_of_the_other_loopback(lan: Lan) -> None:
    port = free_port()
    with within_network(lan.network):
        server = socket.create_server((LOOPBACK, port))

    def answer() -> None:
        connection, _ = server.accept()
        with connection, connection.makefile("rb") as asked:
            connection.sendall(asked.read()[::-1])  # to the end: the caller's half was closed

    thread = threading.Thread(target=answer)
    thread.start()
    with server, PortForward(lan.network, [port]), socket.create_connection((LOOPBACK, port), 5) as client:
        client.sendall(b"abc")
        client.shutdown(socket.SHUT_WR)
        assert client.makefile("rb").read() == b"cba"
    thread.join()


def test_a_port_forward_without_a_listener_closes_the_connection(lan: Lan) -> None:
    port = free_port()
    with PortForward(lan.network, [port]), socket.create_connection((LOOPBACK, port), 5) as client:
        assert client.recv(1) == b""
