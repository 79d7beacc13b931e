"""A scripted HTTP server in the place of the API server, over real sockets."""

import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from shared.kube.transport import Kube
from tests.builders.api_server import Handler, connected


@pytest.fixture
def unused_tcp_port() -> Iterator[int]:
    """A port where nothing listens, bound so that no other program of this machine takes it."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


@pytest.fixture
async def serve(tmp_path: Path) -> AsyncIterator[Callable[[Handler], Awaitable[Kube]]]:
    """Start a server with this handler for every request, and give a connection to it."""
    async with AsyncExitStack() as stack:
        yield lambda handler: stack.enter_async_context(connected(handler, tmp_path))
