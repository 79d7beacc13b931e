"""HTTP servers in place of the API server, over real sockets, and connections to them."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from shared.json_object import Json
from shared.kube.transport import Kube, connect

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_FAREWELL_S = 60


class Objects:
    """The objects of a server, the requests that it received, and its responses to posted objects."""

    def __init__(self, objects: Mapping[str, Any] | None = None) -> None:
        self.objects: dict[str, Any] = dict(objects or {})
        self.posts: dict[str, Callable[[Json], Json]] = {}
        self.asked: list[str] = []
        self.refused: dict[str, int] = {}  # codes by path
        self.messages: dict[str, str] = {}  # of the refusals, by path
        self.down = False

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append(f"{request.method} {request.path}")
        await request.read()  # answering before would leave the connection open
        if self.down:
            return web.json_response({"code": 500, "message": "etcd is away"}, status=500)
        if code := self.refused.get(request.path):
            return status_response(request, code, self.messages.get(request.path, f"{request.path} is refused"))
        if request.method == "POST" and request.path in self.posts:
            return web.json_response(self.posts[request.path](await request.json()), status=201)
        if request.method == "GET" and request.path in self.objects:
            return web.json_response(self.objects[request.path])
        return web.json_response({"code": 404, "message": f"{request.path} not found"}, status=404)


def status_response(request: web.Request, code: int, message: str = "") -> web.Response:
    """Return a Status; a creation that conflicts means that the name is taken."""
    reason = "AlreadyExists" if (request.method, code) == ("POST", 409) else ""
    return web.json_response({"code": code, "reason": reason, "message": message}, status=code)


def kubeconfig(path: Path, server: str = "http://127.0.0.1:1", user: Mapping[str, Any] | None = None) -> Path:
    """Write a kubeconfig with one context."""
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": "secret"} if user is None else user}],
    }
    path.write_text(json.dumps(config))
    return path


def serving(objects: Objects, folder: Path) -> AbstractAsyncContextManager[Kube]:
    """Serve the objects, and connect."""
    return connected(objects.answer, folder, farewell_s=_FAREWELL_S)


@asynccontextmanager
async def connected(handler: Handler, folder: Path, *, farewell_s: float = 0) -> AsyncIterator[Kube]:
    """Start a server with this handler, and connect; at the end, wait `farewell_s` at most for connections to close."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        server = f"http://127.0.0.1:{runner.addresses[0][1]}"
        async with connect(kubeconfig(folder / "kubeconfig", server)) as kube:
            yield kube
        if farewell_s:
            async with asyncio.timeout(farewell_s):  # the loop needs a few iterations to close connections
                while runner.server is not None and runner.server.connections:  # noqa: ASYNC110 - aiohttp gives no signal
                    await asyncio.sleep(0)
    finally:
        await runner.cleanup()


def listed(*items: Json) -> Json:
    """A collection, as the API server lists it."""
    return {"metadata": {"resourceVersion": "1"}, "items": list(items)}
