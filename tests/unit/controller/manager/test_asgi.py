"""Requests are counted by the template of their route, never by the requested path."""

from collections import Counter

import httpx
import pytest
from fastapi import APIRouter, FastAPI, Response

from controller.manager.asgi import CountRequests


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", "/v1/things/secret-name", ("/v1/things/{name}", 200)),
        ("POST", "/v1/things/secret-name", ("/v1/things/{name}", 405)),
        ("GET", "/v2/secret-name", ("unknown", 404)),
    ],
)
async def test_routes_are_counted_by_their_template(method: str, path: str, expected: tuple[str, int]) -> None:
    counts = Counter[tuple[str, int]]()
    app, router = FastAPI(), APIRouter(prefix="/v1")

    @router.get("/things/{name}")
    async def thing(name: str) -> Response:
        return Response(name)

    app.include_router(router)
    app.add_middleware(CountRequests, count=lambda route, status: counts.update([(route, status)]))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://controller") as http:
        await http.request(method, path)
    assert counts == {expected: 1}
