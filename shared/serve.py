"""uvicorn inside a program that owns its signals."""

import asyncio
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp


@dataclass(frozen=True, slots=True)
class Tls:
    """A server's certificate chain and key, as PEM files."""

    certificate: Path
    private_key: Path


class _Server(uvicorn.Server):
    """Leaves signals to the program's root."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take none."""
        yield


async def serve(app: ASGIApp, listen: str, tls: Tls | None = None, grace_s: int = 3) -> None:
    """Serve until cancelled, then let running requests end; `listen` is HOST:PORT. Raises OSError."""
    host, _, port = listen.rpartition(":")
    config = uvicorn.Config(
        app,
        host=host.strip("[]"),
        port=int(port),
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        timeout_graceful_shutdown=grace_s,
        ssl_certfile=tls.certificate if tls else None,
        ssl_keyfile=tls.private_key if tls else None,
    )
    if tls:
        config.load()
        if config.ssl is not None:
            config.ssl.minimum_version = ssl.TLSVersion.TLSv1_2
    server = _Server(config)
    task = asyncio.create_task(server.serve())
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        server.should_exit = True
        await task
        raise
    except SystemExit as error:  # uvicorn's way to say that it could not listen
        raise OSError(f"cannot listen on {listen}: the address is taken or not allowed") from error
