"""Tunnels through HTTP proxies (CONNECT)."""

import socket
from http import HTTPStatus

from shared.errors import Unreachable
from shared.http.connection import Connection
from shared.http.heads import RemoteProtocolError, parse_head
from shared.http.proxies import Proxy

_FIRST_SUCCESS, _FIRST_REDIRECT = 200, 300


def open_tunnel(connected: socket.socket, proxy: Proxy, host: str, port: int, timeout_s: float) -> None:
    """Make the connected proxy open a tunnel to a host; later bytes go there. Raises Unreachable."""
    target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}", "User-Agent: larder"]
    if proxy.authorization:
        lines.append(f"Proxy-Authorization: {proxy.authorization}")
    connection = Connection(connected, timeout_s)
    try:
        connection.send("\r\n".join((*lines, "", "")).encode("latin-1"))
        status = parse_head(connection.read_head(), "CONNECT").status
    except (OSError, EOFError, RemoteProtocolError) as error:
        cause = str(error) or type(error).__name__
        raise Unreachable(
            f"the proxy {proxy.host} port {proxy.port} did not open a tunnel to {target}: {cause}"
        ) from error
    if not _FIRST_SUCCESS <= status < _FIRST_REDIRECT or not connection.is_quiet:
        advice = (
            "add USER:PASSWORD@ to HTTPS_PROXY"
            if status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED
            else "allow it there, or add the host to NO_PROXY"
        )
        raise Unreachable(
            f"the proxy {proxy.host} port {proxy.port} refused a tunnel to {target} (status {status}); {advice}"
        )
    connected.settimeout(timeout_s)  # restore the timeout
