"""The scripted server stops when it is closed, whatever its clients do."""

import socket
import ssl
import threading

import pytest
import trustme

from rig.scripted_http import ScriptedServer, reply

_END_S = 60.0


@pytest.mark.parametrize("handshake", [True, False])
def test_an_idle_tls_connection_does_not_delay_closing_the_server(*, handshake: bool) -> None:
    authority, tls, ours = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    authority.configure_trust(ours)
    server = ScriptedServer(lambda _: reply(200), tls)
    with socket.create_connection(("127.0.0.1", server.port)) as plain:
        if handshake:
            client = ours.wrap_socket(plain, server_hostname="127.0.0.1")
            client.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert client.recv(12) == b"HTTP/1.1 200"
        closing = threading.Thread(target=server.close)
        closing.start()
        closing.join(_END_S)
        ended = not closing.is_alive()
        if handshake:
            client.close()
    closing.join()
    assert ended
