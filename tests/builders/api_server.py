"""Objects by their path, over a real socket: enough for what reads them."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from shared.kube.transport import Kube, connect

Json = dict[str, Any]
_FAREWELL_S = 60


class Objects:
    """What the server has, what was asked of it, and what it says to what is posted."""

    def __init__(self, objects: Mapping[str, Any] | None = None) -> None:
        self.objects: dict[str, Any] = dict(objects or {})
        self.posts: dict[str, Callable[[Json], Json]] = {}
        self.asked: list[str] = []
        self.refused: dict[str, int] = {}  # codes by path
        self.down = False

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append(f"{request.method} {request.path}")
        await request.read()  # an answer before the body was read would leave the connection open
        if self.down:
            return web.json_response({"code": 500, "message": "etcd is away"}, status=500)
        if code := self.refused.get(request.path):
            return web.json_response({"code": code, "message": f"{request.path} is refused"}, status=code)
        if request.method == "POST" and request.path in self.posts:
            return web.json_response(self.posts[request.path](await request.json()), status=201)
        if request.method == "GET" and request.path in self.objects:
            return web.json_response(self.objects[request.path])
        return web.json_response({"code": 404, "message": f"{request.path} not found"}, status=404)


@asynccontextmanager
async def serving(objects: Objects, folder: Path) -> AsyncIterator[Kube]:
    """Serve the objects, and connect."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", objects.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        config = {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{runner.addresses[0][1]}"}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
        }
        path = folder / "kubeconfig"
        path.write_text(json.dumps(config))
        async with connect(path) as kube:
            yield kube
        async with asyncio.timeout(_FAREWELL_S):  # the client is gone: so are its connections, in a turn or two
            while runner.server is not None and runner.server.connections:  # noqa: ASYNC110 - aiohttp tells nobody
                await asyncio.sleep(0)
    finally:
        await runner.cleanup()


def listed(*items: Json) -> Json:
    """A collection, as the API server lists it."""
    return {"metadata": {"resourceVersion": "1"}, "items": list(items)}
