"""Servers that answer what a test tells them to, over real sockets."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from rig.scripted_http import Answer, ScriptedServer, scripted


@pytest.fixture
def serve() -> Iterator[Callable[[Answer], ScriptedServer]]:
    """Start a server with this answer to every request."""
    with ExitStack() as stack:
        yield lambda answer: stack.enter_context(scripted(answer))
