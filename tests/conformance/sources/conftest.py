"""The kinds of sources that the suite runs over."""

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from rig.git_server import GitServer
from rig.scripted_http import scripted
from rig.source_fixtures import (
    AzureFixture,
    FileServer,
    GcsFixture,
    GitFixture,
    HttpsFixture,
    HubFixture,
    LocalFixture,
    MemoryFixture,
    RegistryFixture,
    S3Fixture,
    SourceFixture,
)


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ssl.SSLContext]:
    """A CA bundle, and the TLS context of a server with a certificate of that CA."""
    authority, tls = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    bundle = tmp_path_factory.mktemp("ca") / "ca.pem"
    authority.cert_pem.write_to_path(str(bundle))
    return bundle, tls


def _https(request: pytest.FixtureRequest) -> Iterator[SourceFixture]:
    bundle, tls = request.getfixturevalue("certificates")
    served = FileServer()
    with scripted(served.answer, tls) as server:
        yield HttpsFixture(bundle, server.url, served)


def _git(request: pytest.FixtureRequest, state: Path) -> Iterator[SourceFixture]:
    bundle, tls = request.getfixturevalue("certificates")
    served = GitServer(state)
    with scripted(served.answer, tls) as server:
        served.url = server.url
        yield GitFixture(bundle, served)


@pytest.fixture(params=["memory", "hf", "s3", "gs", "az", "oci", "https", "git+https", "local"])
def source_fixture(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SourceFixture]:
    """Each kind of source in turn."""
    match request.param:
        case "memory":
            yield MemoryFixture()
        case "hf":
            yield HubFixture(request.getfixturevalue("hub"), tmp_path)
        case "s3":
            yield S3Fixture(request.getfixturevalue("s3"))
        case "gs":
            yield GcsFixture(request.getfixturevalue("gcs"))
        case "az":
            yield AzureFixture(request.getfixturevalue("azure"))
        case "oci":
            yield RegistryFixture(request.getfixturevalue("registry"))
        case "local":
            yield LocalFixture(tmp_path)
        case "git+https":
            yield from _git(request, tmp_path)
        case _:
            yield from _https(request)


@pytest.fixture(params=["s3", "gs", "az"])
def bucket_fixture(request: pytest.FixtureRequest) -> SourceFixture:
    """Each kind whose URIs may name a whole bucket."""
    match request.param:
        case "s3":
            return S3Fixture(request.getfixturevalue("s3"))
        case "gs":
            return GcsFixture(request.getfixturevalue("gcs"))
        case _:
            return AzureFixture(request.getfixturevalue("azure"))


@pytest.fixture
def guarded(source_fixture: SourceFixture) -> SourceFixture:
    """Each kind that hides private files from clients without credentials."""
    if not source_fixture.guarded:
        pytest.skip("everybody may read it: there are no credentials")
    return source_fixture
