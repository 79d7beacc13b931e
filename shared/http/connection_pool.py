"""A pool of kept HTTP/1.1 connections, shared by threads and opened with our own address checks."""

import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from shared.errors import Unreachable
from shared.http.address_checks import Network, connect, refuse_known
from shared.http.connection import Connection
from shared.http.origins import Origin, origin_of
from shared.http.proxies import Proxy
from shared.http.settings import ClientSettings
from shared.http.tunnels import open_tunnel

_KEEP_IDLE_S = 20.0  # servers commonly close idle connections after 30 to 60 s
_KEEP_IDLE = 128  # of all origins together


class ConnectionPool:
    """Connections by origin. `lease` prefers a kept connection; `release` keeps it for the next request."""

    def __init__(self, settings: ClientSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings, self._clock = settings, clock
        self._allowed = settings.allowed_networks
        self._trusted = {origin_of(endpoint) for endpoint in settings.endpoints}
        self._idle: list[tuple[float, Origin, Connection]] = []  # oldest first
        self._lock = threading.Lock()
        self._tls: ssl.SSLContext | None = None

    def lease(self, origin: Origin) -> tuple[Connection, bool]:
        """Return a connection and whether it is reused; raises Unreachable, AddressRefused."""
        with self._lock:
            self._drop_expired()
            for at in reversed(range(len(self._idle))):
                if self._idle[at][1] == origin:
                    return self._idle.pop(at)[2], True
        return self.open(origin), False

    def release(self, origin: Origin, connection: Connection) -> None:
        """Keep a connection whose last response was read to its end, instead of the oldest if there are many.

        Redirects may lead to any number of origins, so what is kept is bounded for all of them together.
        """
        with self._lock:
            self._drop_expired()
            if len(self._idle) >= _KEEP_IDLE:
                self._idle.pop(0)[2].close()
            self._idle.append((self._clock(), origin, connection))

    def close(self) -> None:
        """Close the kept connections; each leased one is closed by its user."""
        with self._lock:
            kept, self._idle = self._idle, []
        for _, _, connection in kept:
            connection.close()

    def _drop_expired(self) -> None:
        while self._idle and self._clock() - self._idle[0][0] >= _KEEP_IDLE_S:
            self._idle.pop(0)[2].close()

    def open(self, origin: Origin) -> Connection:
        """Return a new connection; its address is checked unless the administrator configured the endpoint."""
        allowed = None if self._is_trusted(origin) else self._allowed
        tls = self._tls_context() if origin.scheme == "https" else None
        proxy = self._settings.proxies.of(origin.scheme, origin.host)
        if proxy is None:
            connected = connect(origin.host, origin.port, allowed=allowed, timeout_s=self._settings.connect_timeout_s)
        else:
            connected = self._connect_through(proxy, origin, allowed)
        if tls:
            try:
                connected = tls.wrap_socket(connected, server_hostname=origin.host)
            except OSError as error:
                connected.close()
                raise Unreachable(f"no TLS connection to {origin.netloc}: {tls_error_message(error)}") from error
        return Connection(connected, self._settings.read_timeout_s, None if tls else proxy)

    def _connect_through(self, proxy: Proxy, origin: Origin, allowed: Sequence[Network] | None) -> socket.socket:
        """Connect to the proxy, and open a tunnel through it if the request must stay secret."""
        if allowed is not None:
            refuse_known(origin.host, origin.port, allowed)
        try:
            connected = connect(proxy.host, proxy.port, allowed=None, timeout_s=self._settings.connect_timeout_s)
        except Unreachable as error:
            raise Unreachable(f"the proxy for {origin.netloc}: {error}; correct HTTPS_PROXY or HTTP_PROXY") from error
        try:
            if origin.scheme == "https":
                open_tunnel(connected, proxy, origin.host, origin.port, self._settings.connect_timeout_s)
        except BaseException:
            connected.close()
            raise
        return connected

    def _is_trusted(self, origin: Origin) -> bool:
        is_endpoint = any((t.host, t.port) == (origin.host, origin.port) for t in self._trusted)
        return is_endpoint or self._settings.is_bucket_host(origin.host, origin.port)

    def _tls_context(self) -> ssl.SSLContext:
        with self._lock:
            if self._tls is None:
                self._tls = make_tls_context(self._settings.ca_bundle)
            return self._tls


def make_tls_context(ca_bundle: str | None) -> ssl.SSLContext:
    """Return a verifying TLS context for the system's certificate authorities, or only for those of the bundle."""
    try:
        if ca_bundle and Path(ca_bundle).is_dir():
            return ssl.create_default_context(capath=ca_bundle)
        return ssl.create_default_context(cafile=ca_bundle)
    except OSError as error:
        message = (
            f"the CA bundle {ca_bundle} cannot be read: {error}; correct SSL_CERT_FILE or the setting that names it"
        )
        raise Unreachable(message) from error


def tls_error_message(error: OSError) -> str:
    """Return what went wrong in TLS, and how to fix it if the certificate is the cause."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"its certificate is not trusted ({error.verify_message}); if it should be, add its CA to the CA bundle "
            "(SSL_CERT_FILE)"
        )
    return "the handshake timed out" if isinstance(error, TimeoutError) else str(error)
