"""A scripted HTTP server in the place of the API server, over real sockets."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from aiohttp import web

from shared.kube.transport import Kube, connect

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def kubeconfig(server: str) -> str:
    return json.dumps(
        {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": server}}],
            "users": [{"name": "u", "user": {"token": "secret"}}],
        }
    )


@pytest.fixture
async def serve(tmp_path: Path) -> AsyncIterator[Callable[[Handler], Awaitable[Kube]]]:
    """Start a server with this handler for every request, and give a connection to it."""
    async with AsyncExitStack() as stack:

        async def start(handler: Handler) -> Kube:
            runner = web.AppRunner(_app(handler), shutdown_timeout=0.1)
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            path = tmp_path / "kubeconfig"
            path.write_text(kubeconfig(f"http://127.0.0.1:{runner.addresses[0][1]}"))
            return await stack.enter_async_context(connect(path))

        yield start


def _app(handler: Handler) -> web.Application:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    return app
