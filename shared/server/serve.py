"""Runs uvicorn inside a program that owns its signals, and reloads a renewed certificate while serving."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import structlog
import uvicorn
from starlette.types import ASGIApp

from shared.server.limits import ServerLimits, limited_protocol

_LOG: structlog.stdlib.BoundLogger = structlog.get_logger()
_RELOAD_S = 10.0
_Stamp = tuple[tuple[int, int], ...]
_OnExpiry = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class Tls:
    """The certificate chain and key of a server, as PEM files.

    `client_ca` verifies client certificates; whether one is required is up to the application.
    """

    certificate: Path
    private_key: Path
    client_ca: Path | None = None

    def stamp(self) -> _Stamp:
        """Return a value that changes when a file is replaced, in place or by another link. Raises OSError."""
        stats = (path.stat() for path in (self.certificate, self.private_key))
        return tuple((s.st_ino, s.st_mtime_ns) for s in stats)

    def load_into(self, context: ssl.SSLContext) -> None:
        """Use this certificate for new connections. Raises OSError (SSLError if chain and key do not match)."""
        self._check()
        context.load_cert_chain(self.certificate, self.private_key)

    def not_after(self) -> float:
        """Return the end of validity in seconds since 1970. Raises OSError, ValueError."""
        return not_after(self.certificate.read_text())

    def _check(self) -> None:
        """Refuse a half-written pair before it reaches the live context, which would get the chain without the key."""
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self.certificate, self.private_key)


def not_after(pem: str) -> float:
    """Return the end of validity of the first certificate of a chain, in seconds since 1970. Raises ValueError."""
    from cryptography.x509 import load_pem_x509_certificate  # noqa: PLC0415 - agents serve without TLS, and save 8 MB

    return load_pem_x509_certificate(pem.encode()).not_valid_after_utc.timestamp()


async def _reload_certificate(
    tls: Tls, context: ssl.SSLContext, seen: _Stamp, on_expiry: _OnExpiry, every_s: float
) -> None:
    """Reload the pair whenever its files differ from those `seen`; if loading fails, the last pair stays.

    `on_expiry` is called with the expiry of each new certificate, in seconds since 1970.
    """
    while True:
        await asyncio.sleep(every_s)
        try:
            stamp = tls.stamp()
            if stamp == seen:
                continue
            tls.load_into(context)
        except OSError as error:
            _LOG.warning("certificate_not_loaded", file=str(tls.certificate), error=str(error))
            continue
        seen = stamp
        _LOG.info("certificate_loaded", file=str(tls.certificate))
        _report_expiry(tls, on_expiry)


def _report_expiry(tls: Tls, on_expiry: _OnExpiry) -> None:
    """Report the expiry; a certificate that only the TLS library can parse is served all the same."""
    try:
        on_expiry(tls.not_after())
    except (OSError, ValueError) as error:
        _LOG.warning("certificate_end_unknown", file=str(tls.certificate), error=str(error))


class Server(uvicorn.Server):
    """A uvicorn server that leaves signals to the root of the program."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture no signals."""
        yield


async def serve(
    app: ASGIApp,
    listen: str,
    tls: Tls | None = None,
    grace_s: int = 3,
    reload_s: float = _RELOAD_S,
    on_expiry: _OnExpiry = lambda _: None,
    limits: ServerLimits | None = None,
) -> None:
    """Serve until cancelled, then let running requests finish. Raises OSError.

    A client is identified by its own address; headers that name another one are ignored.

    Args:
        app: The application.
        listen: HOST:PORT.
        tls: The certificate; None for plain http.
        grace_s: Seconds that running requests get to finish.
        reload_s: Seconds between checks of the files of `tls`; new connections get the newest pair.
        on_expiry: Called with the expiry of each loaded certificate, in seconds since 1970.
        limits: The limits on connections.
    """
    config = _config(app, listen, tls, grace_s, limits or ServerLimits())
    server = Server(config)
    async with _certificate_kept_current(config, tls, reload_s, on_expiry):
        task = asyncio.create_task(server.serve())
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            server.should_exit = True
            await task
            raise
        except SystemExit as error:  # how uvicorn reports that it cannot listen
            raise OSError(f"cannot listen on {listen}: the address is taken or not allowed") from error


def _config(app: ASGIApp, listen: str, tls: Tls | None, grace_s: int, limits: ServerLimits) -> uvicorn.Config:
    host, _, port = listen.rpartition(":")
    return uvicorn.Config(
        app,
        host=host.strip("[]"),
        port=int(port),
        http=limited_protocol(limits),
        ws="none",
        proxy_headers=False,
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        timeout_graceful_shutdown=grace_s,
        timeout_keep_alive=limits.idle_s,
        ssl_certfile=tls.certificate if tls else None,
        ssl_keyfile=tls.private_key if tls else None,
        ssl_ca_certs=str(tls.client_ca) if tls and tls.client_ca else None,
        ssl_cert_reqs=ssl.CERT_OPTIONAL if tls and tls.client_ca else ssl.CERT_NONE,
    )


@asynccontextmanager
async def _certificate_kept_current(
    config: uvicorn.Config, tls: Tls | None, reload_s: float, on_expiry: _OnExpiry
) -> AsyncIterator[None]:
    """Load the certificate, if there is one, and reload it whenever its files change."""
    if tls is None:
        yield
        return
    seen = tls.stamp()
    config.load()
    assert config.ssl is not None  # noqa: S101 - uvicorn makes one where it is given a certificate
    config.ssl.minimum_version = ssl.TLSVersion.TLSv1_2
    _report_expiry(tls, on_expiry)
    reloading = asyncio.create_task(_reload_certificate(tls, config.ssl, seen, on_expiry, reload_s))
    try:
        yield
    finally:
        reloading.cancel()
        with suppress(asyncio.CancelledError):
            await reloading
