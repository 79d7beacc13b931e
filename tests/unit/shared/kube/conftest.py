"""A scripted HTTP server in the place of the API server, over real sockets."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from shared.kube.transport import Kube
from tests.builders.api_server import Handler, connected


@pytest.fixture
async def serve(tmp_path: Path) -> AsyncIterator[Callable[[Handler], Awaitable[Kube]]]:
    """Start a server with this handler for every request, and give a connection to it."""
    async with AsyncExitStack() as stack:
        yield lambda handler: stack.enter_async_context(connected(handler, tmp_path))
