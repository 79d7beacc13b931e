"""Health and metrics endpoints over plain HTTP."""

from collections.abc import Callable

from fastapi import FastAPI, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from controller.manager.metrics import Metrics


def health_app(metrics: Metrics, is_ready: Callable[[], bool]) -> FastAPI:
    """Return the app with `/healthz`, `/readyz` and `/metrics`.

    `/healthz` answers while the event loop runs, and reports the internal errors that the process survived.
    """
    app = FastAPI(openapi_url=None)

    async def healthz() -> Response:
        lines = "\n".join(filter(None, ("ok", metrics.internal_errors.summary())))
        return Response(f"{lines}\n", media_type="text/plain")

    async def readyz() -> Response:
        ready = is_ready()
        text = "ok\n" if ready else "waiting for the first lists from the API server\n"
        return Response(text, status_code=200 if ready else 503, media_type="text/plain")

    async def show_metrics() -> Response:
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)

    app.add_api_route("/healthz", healthz)
    app.add_api_route("/readyz", readyz)
    app.add_api_route("/metrics", show_metrics)
    return app
