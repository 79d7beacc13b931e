"""The driver's optional HTTP endpoint for health and metrics."""

import asyncio
from collections.abc import Callable

from fastapi import FastAPI, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from agent.dra.status_file import READY
from agent.server.listen import listen_on
from agent.server.server import build_server

_UNAVAILABLE = 503


def health_app(registry: CollectorRegistry, status: Callable[[], str], note: Callable[[], str]) -> FastAPI:
    """Return the app.

    Args:
        registry: The metrics.
        status: Returns `ready`, or why no devices are published.
        note: Returns a line about internal errors for the health check, or an empty string.
    """
    app = FastAPI(title="larder-dra", docs_url=None, redoc_url=None, openapi_url=None)

    @app.get("/healthz")
    async def healthz() -> Response:
        """Answer while the driver is alive, and list internal errors that it recovered from."""
        return Response("".join(f"{line}\n" for line in ("ok", note()) if line), media_type="text/plain")

    @app.get("/readyz")
    async def readyz() -> Response:
        """Report whether devices are published."""
        return Response(f"{status()}\n", 200 if status() == READY else _UNAVAILABLE, media_type="text/plain")

    @app.get("/metrics")
    async def metrics() -> Response:
        """Return the metrics."""
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    return app


async def serve_health(app: FastAPI, listen: str) -> None:
    """Serve on HOST:PORT until cancelled. Raises StoreFailure if the address cannot be used."""
    with listen_on(listen) as listener:
        server = build_server(app)
        serving = asyncio.create_task(server.serve([listener]))
        try:
            await asyncio.shield(serving)
        finally:
            server.stop()
            await serving
