"""Real servers for the tests that request them, started at the first request and once per session."""

import asyncio
import gc
import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer

from rig import azurite
from rig.azure import Azure
from rig.binaries import FAKE_GCS, REGISTRY, Binaries, Binary, find, locate
from rig.control_plane import ControlPlane
from rig.errors import MissingBinaries
from rig.gcs import Gcs
from rig.hub import Hub
from rig.larder.cluster_driver import ClusterDriver
from rig.registry import Registry
from rig.s3 import S3
from tests.workers import ByFile, rank

_SHARED_MACHINE = {"GOMAXPROCS": "1", "GOGC": "400"}  # for Go programs that tests start


def pytest_configure() -> None:
    """Configure the event loop, hypothesis and signals for all tests.

    Synchronous tests get no event loop, because a plugin would create one there that is never closed. Property tests do
    not fail on slow machines. Ctrl-C ends the programs of tests even if a shell runs pytest in the background, where
    it and its children would ignore that. On xdist workers, Go servers use a single thread for Go code.
    """
    if "PYTEST_XDIST_WORKER" in os.environ:
        os.environ.update(_SHARED_MACHINE)
    asyncio.set_event_loop(None)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    settings.register_profile("larder", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("larder")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Exclude the objects of test items from later garbage collections, and collect more rarely.

    The usual threshold of 700 objects costs the unit tests a twelfth of their processor time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(20_000, 20, 50)
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start the longest units first, regardless of the order of their folders."""
    items.sort(key=lambda item: rank(item.nodeid))


@pytest.hookimpl(optionalhook=True)  # there are no workers without pytest-xdist
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByFile:
    """Share out the tests by file, in order."""
    config.option.loadscopereorder = False
    return ByFile(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: "pytest.CallInfo[None]"
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the state of the cluster to the report of a failed test."""
    report = yield
    site = item.funcargs.get("site") if isinstance(item, pytest.Function) else None
    if report.failed and call.when == "call" and isinstance(site, ClusterDriver):
        report.sections.append(("cluster", site.explain()))
    return report


@pytest.fixture(scope="session")
def binaries() -> Binaries:
    """The programs that `python -m rig setup` installs; without them, the test fails and says what to run."""
    try:
        return find(os.environ)
    except MissingBinaries as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture(scope="session")
def control_plane(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A real control plane for the whole session: use unique names, and leave nothing that disturbs other tests."""
    with ControlPlane(binaries, tmp_path_factory.mktemp("control-plane")) as running:
        yield running


@pytest.fixture(scope="session")
def s3(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    """A real S3 server for the whole session: use a bucket of your own."""
    with S3(binaries, tmp_path_factory.mktemp("s3")) as running:
        yield running


def _located(binary: Binary) -> Path:
    found = locate(binary, os.environ)
    if found is None:
        pytest.fail(f"{binary.name} not found; run: make setup && .venv/bin/python -m rig setup", pytrace=False)
    return found


@pytest.fixture(scope="session")
def gcs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gcs]:
    """A server of Google Cloud Storage's API for the whole session: use a bucket of your own."""
    with Gcs(_located(FAKE_GCS), tmp_path_factory.mktemp("gcs")) as running:
        yield running


@pytest.fixture(scope="session")
def azure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Azure]:
    """A server of Azure's blob service for the whole session, if Node.js is installed: use a container of your own."""
    program = azurite.locate(os.environ)
    if program is None:
        pytest.skip("azurite is not in the cache, or there is no Node; install npm and run: python -m rig setup")
    with Azure(program, tmp_path_factory.mktemp("azure")) as running:
        yield running


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """A container registry for the whole session: use a repository of your own."""
    with Registry(_located(REGISTRY), tmp_path_factory.mktemp("registry")) as running:
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
