"""Real servers for the tests that ask for them, started when first asked for and once a session."""

import asyncio
import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

from rig.binaries import Binaries, find
from rig.control_plane import ControlPlane
from rig.errors import MissingBinaries
from rig.hub import Hub
from rig.s3 import S3


def pytest_configure() -> None:
    """Leave no event loop to synchronous tests: a plugin would make one there that nobody closes.

    No test of properties fails because the machine is slow.
    """
    asyncio.set_event_loop(None)
    settings.register_profile("larder", settings(), deadline=None)
    settings.load_profile("larder")


@pytest.fixture(scope="session")
def binaries() -> Binaries:
    """The programs that `python -m rig setup` keeps; without them the test fails and says what to run."""
    try:
        return find(os.environ)
    except MissingBinaries as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture(scope="session")
def control_plane(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A real control plane for the whole session: use names of your own, leave nothing behind that others trip over."""
    with ControlPlane(binaries, tmp_path_factory.mktemp("control-plane")) as running:
        yield running


@pytest.fixture(scope="session")
def s3(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    """A real S3 server for the whole session: use a bucket of your own."""
    with S3(binaries, tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture(scope="session")
def session_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """The hub behind `hub`."""
    with Hub(tmp_path_factory.mktemp("hub")) as running:
        yield running


@pytest.fixture
def hub(session_hub: Hub) -> Iterator[Hub]:
    """A Hugging Face hub without faults and with an empty journal: use a repository name of your own."""
    session_hub.reset()
    yield session_hub
    session_hub.reset()
