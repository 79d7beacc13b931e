"""Repeated `larder fetch` of files without a digest: ETag, time or size show whether they changed."""

import os
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from rig.scripted_http import ScriptedRequest, ScriptedServer, reply, scripted
from shared.sources.memory import MemorySource
from tests.integration.cli.fetch.command import Command, larder

FIRST, SECOND = b"first!", b"second"  # of the same size
NAME = "model.bin"


class Site:
    """A server of one file whose content and headers can change, and the directory that it is fetched into."""

    def __init__(self, root: Path) -> None:
        authority, tls = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("localhost").configure_cert(tls)
        authority.cert_pem.write_to_path(str(root / "ca.pem"))
        self.ca, self.tls, self.to = root / "ca.pem", tls, root / "to"
        self.body, self.headers = FIRST, dict[str, str]()

    @property
    def placed(self) -> Path:
        return self.to / NAME

    def answer(self, asked: ScriptedRequest) -> bytes:
        reported = {"Content_Length": str(len(self.body)), **self.headers}
        return reply(200, b"" if asked.method == "HEAD" else self.body, **reported)

    def fetch(self, server: ScriptedServer) -> int:
        """Fetch the file and return how often it was asked for."""
        before = len(server.asked)
        uri = f"https://localhost:{server.port}/{NAME}"
        done = larder("fetch", uri, "--to", str(self.to), SSL_CERT_FILE=str(self.ca))
        assert (done.returncode, done.stderr) == (0, "")
        return sum(asked.method == "GET" for asked in server.asked[before:])


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.fixture
def server(site: Site) -> Iterator[ScriptedServer]:
    with scripted(site.answer, site.tls) as server:
        yield server


CHANGES = {
    "tag": ({"ETag": '"1"'}, {"ETag": '"2"'}),
    "weak tag": ({"ETag": 'W/"1"'}, {"ETag": 'W/"2"'}),
    "date": ({"Last_Modified": "Sat, 21 Nov 2026 10:00:00 GMT"}, {"Last_Modified": "Sat, 21 Nov 2026 10:00:01 GMT"}),
}


@pytest.mark.parametrize(("before", "after"), CHANGES.values(), ids=CHANGES)
def test_a_file_that_changed_at_the_source_is_fetched_again(
    site: Site, server: ScriptedServer, before: dict[str, str], after: dict[str, str]
) -> None:
    site.headers = before
    assert [site.fetch(server), site.fetch(server)] == [1, 0]
    site.body, site.headers = SECOND, after
    assert [site.fetch(server), site.fetch(server)] == [1, 0]
    assert site.placed.read_bytes() == SECOND
    assert [path.name for path in site.to.iterdir()] == [NAME]


def test_a_file_without_digest_or_time_is_fetched_again_only_if_its_size_changed(
    site: Site, server: ScriptedServer
) -> None:
    assert [site.fetch(server), site.fetch(server)] == [1, 0]
    site.body = SECOND
    assert site.fetch(server) == 0
    site.body = b"longer than before"
    assert site.fetch(server) == 1
    assert site.placed.read_bytes() == site.body


def test_a_modified_file_is_fetched_again(site: Site, server: ScriptedServer) -> None:
    assert site.fetch(server) == 1
    site.placed.write_bytes(SECOND)
    assert site.fetch(server) == 1
    assert site.placed.read_bytes() == FIRST


@pytest.mark.parametrize("time_ns", [0, 1_700_000_000 * 10**9])
def test_a_file_that_no_earlier_fetch_wrote_is_replaced(site: Site, server: ScriptedServer, time_ns: int) -> None:
    site.to.mkdir()
    site.placed.write_bytes(SECOND)
    os.utime(site.placed, ns=(time_ns, time_ns))
    assert site.fetch(server) == 1
    assert site.placed.read_bytes() == FIRST


def test_many_unchanged_files_without_digests_are_not_fetched_again(tmp_path: Path) -> None:
    files = {f"f{n}": os.urandom(1000) for n in range(20)} | {"empty": b""}
    command = Command(tmp_path / "dir", MemorySource(files, digests=False))
    assert command.run() == 0
    served = command.source.served_bytes
    assert command.run() == 0
    assert command.source.served_bytes == served
    assert command.tree() == files
