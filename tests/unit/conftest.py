"""Servers over real sockets with scripted answers, and a short list of trusted authorities."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
import trustme

from rig.scripted_http import Answer, ScriptedServer, scripted


@pytest.fixture(scope="session", autouse=True)
def _one_certificate_authority(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Make one authority the system's only one: loading over a hundred takes 20 ms for each client of a test."""
    bundle = tmp_path_factory.mktemp("authorities") / "ca.pem"
    trustme.CA().cert_pem.write_to_path(bundle)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("SSL_CERT_FILE", str(bundle))
        yield


@pytest.fixture
def serve() -> Iterator[Callable[[Answer], ScriptedServer]]:
    """Start a server with this answer to every request."""
    with ExitStack() as stack:
        yield lambda answer: stack.enter_context(scripted(answer))
