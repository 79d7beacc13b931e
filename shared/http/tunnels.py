"""Tunnels through HTTP proxies (CONNECT)."""

import socket
from http import HTTPStatus

from shared.errors import Unreachable
from shared.http.heads import NotHttp, parse_head
from shared.http.proxies import Proxy
from shared.http.wire import Wire

_BEGIN_OF_SUCCESS, _END_OF_SUCCESS = 200, 300


def open_tunnel(connected: socket.socket, proxy: Proxy, host: str, port: int, timeout_s: float) -> None:
    """Make the connected proxy open a tunnel to a host; later bytes go there. Raises Unreachable."""
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    lines = [f"CONNECT {place} HTTP/1.1", f"Host: {place}", "User-Agent: larder"]
    if proxy.authorization:
        lines.append(f"Proxy-Authorization: {proxy.authorization}")
    wire = Wire(connected, timeout_s)
    try:
        wire.send("\r\n".join((*lines, "", "")).encode("latin-1"))
        status = parse_head(wire.read_head(), "CONNECT").status
    except (OSError, EOFError, NotHttp) as error:
        cause = str(error) or type(error).__name__
        raise Unreachable(f"the proxy {proxy.host} port {proxy.port} opens no way to {place}: {cause}") from error
    if not _BEGIN_OF_SUCCESS <= status < _END_OF_SUCCESS or not wire.is_quiet:
        way_out = (
            "put USER:PASSWORD@ into HTTPS_PROXY"
            if status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED
            else "let it, or name the host in NO_PROXY"
        )
        raise Unreachable(
            f"the proxy {proxy.host} port {proxy.port} opens no way to {place} (status {status}); {way_out}"
        )
    connected.settimeout(timeout_s)  # restore the timeout
