"""Real servers with virtual-hosted buckets, and at endpoints from a Secret."""

import io
import re
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from boto3.s3.transfer import TransferConfig

from rig.binaries import Binaries
from rig.s3 import S3
from rig.scripted_http import ScriptedServer, reply
from shared.errors import AddressRefused, AuthDenied
from shared.manifest import File
from shared.sources.port import Credentials
from shared.sources.schemes import open_source
from shared.sources.settings import SourceSettings
from shared.uri.model_uri import parse_uri
from tests.readers.sources import drain

DOMAIN, OPENED = "s3.test", ("127.0.0.1/32",)


@pytest.fixture(scope="module")
def virtual(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    with S3(binaries, tmp_path_factory.mktemp("virtual"), virtual=DOMAIN) as running:
        yield running


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory, authority: trustme.CA) -> Path:
    path = tmp_path_factory.mktemp("ca") / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return path


@pytest.fixture(scope="module")
def behind_tls(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory, authority: trustme.CA) -> Iterator[S3]:
    state = tmp_path_factory.mktemp("tls")
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(state / "own.pem"))
    with S3(binaries, state, certificate=state / "own.pem") as running:
        put_model(running)
        yield running


@pytest.fixture
def refusing(authority: trustme.CA) -> Iterator[ScriptedServer]:
    """A server that refuses every request, and records it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    server = ScriptedServer(lambda _: reply(403), context)
    yield server
    server.close()


@pytest.fixture
def looked_up(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Resolve all names of the domain to loopback, like a wildcard record; return the names that were looked up."""
    resolve, asked = socket.getaddrinfo, set[str]()

    def resolved(host: str, *args: Any, **more: Any) -> Any:
        asked.add(host)
        return resolve("127.0.0.1" if host.endswith(DOMAIN) else host, *args, **more)

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    return asked


def put_model(s3: S3) -> None:
    (s3.path("bucket") / "m/deep").mkdir(parents=True)
    for path in ("m/x", "m/deep/y z", "m-beside"):
        s3.path("bucket", path).write_bytes(path.encode())


def place_of(s3: S3) -> str:
    return s3.endpoint.partition("://")[2]


def keys_of(s3: S3, **more: str) -> dict[str, str]:
    return {"AWS_ACCESS_KEY_ID": s3.access_key, "AWS_SECRET_ACCESS_KEY": s3.secret_key, **more}


def test_buckets_are_listed_and_read_at_their_virtual_hosts(virtual: S3, looked_up: set[str]) -> None:
    put_model(virtual)
    settings = SourceSettings(s3_endpoint=f"http://{DOMAIN}:{virtual.port}", s3_addressing="virtual")
    source = open_source(parse_uri("s3://bucket/m"), Credentials(keys_of(virtual)), settings)
    files = {f.path: drain(source, f) for f in source.resolve().files}
    source.close()
    assert files == {"x": b"m/x", "deep/y z": b"m/deep/y z"}
    assert looked_up == {f"bucket.{DOMAIN}"}


def test_part_lengths_are_requested_at_the_virtual_host_of_the_bucket(virtual: S3, looked_up: set[str]) -> None:
    virtual.path("cut").mkdir()
    parts = TransferConfig(multipart_threshold=2**20, multipart_chunksize=5 * 2**20)
    virtual.client().upload_fileobj(io.BytesIO(bytes(6 * 2**20)), "cut", "m/y z", Config=parts)
    looked_up.clear()
    settings = SourceSettings(s3_endpoint=f"http://{DOMAIN}:{virtual.port}", s3_addressing="virtual")
    source = open_source(parse_uri("s3://cut/m"), Credentials(keys_of(virtual)), settings)
    (file,) = source.resolve().files
    source.close()
    assert re.fullmatch("crc32-parts:[0-9a-f]{8}-2-5242880", file.digest)
    assert looked_up == {f"cut.{DOMAIN}"}


def test_the_endpoint_of_a_secret_is_used_and_kept_in_the_manifest(behind_tls: S3, bundle: Path) -> None:
    settings = SourceSettings(allow_addresses=OPENED, ca_bundle=str(bundle))
    secret = Credentials(keys_of(behind_tls, AWS_ENDPOINT_URL=behind_tls.endpoint), (place_of(behind_tls),))
    source = open_source(parse_uri("s3://bucket/m"), secret, settings)
    manifest = source.resolve()
    source.close()
    assert manifest.uri == f"s3://bucket@us-east-1@127.0.0.1:{behind_tls.port}/m"
    agents = open_source(parse_uri(manifest.uri), secret, settings)
    assert {f.path: drain(agents, f) for f in manifest.files} == {"x": b"m/x", "deep/y z": b"m/deep/y z"}
    agents.close()


def test_keys_are_not_sent_to_an_endpoint_that_the_secret_does_not_name(refusing: ScriptedServer, bundle: Path) -> None:
    settings, place = SourceSettings(allow_addresses=OPENED, ca_bundle=str(bundle)), f"127.0.0.1:{refusing.port}"
    keys = {"AWS_ACCESS_KEY_ID": "the-id", "AWS_SECRET_ACCESS_KEY": "the-key", "AWS_ENDPOINT_URL": refusing.url}
    for hosts, are_sent in (((), False), (("elsewhere.test",), False), ((place,), True)):
        source = open_source(parse_uri("s3://bucket/m"), Credentials(keys, hosts), settings)
        for act in (source.resolve, lambda source=source: source.open(File("x", 3))):
            refusing.asked.clear()
            with pytest.raises(AuthDenied) as error:
                act()
            assert (f"add {place} to the Secret's annotation" in str(error.value)) is not are_sent
            assert {"the-id" in repr(asked) for asked in refusing.asked} == {are_sent}
        source.close()


def test_the_address_of_an_endpoint_from_a_secret_is_checked_like_any_other(behind_tls: S3, bundle: Path) -> None:
    secret = Credentials(keys_of(behind_tls, AWS_ENDPOINT_URL=behind_tls.endpoint), (place_of(behind_tls),))
    source = open_source(parse_uri("s3://bucket/m"), secret, SourceSettings(ca_bundle=str(bundle)))
    for act in (source.resolve, lambda: source.open(File("x", 3))):
        with pytest.raises(AddressRefused, match="loopback"):
            act()
    source.close()


def test_the_ca_bundle_for_s3_takes_precedence_over_the_general_one(behind_tls: S3, bundle: Path) -> None:
    other = ssl.get_default_verify_paths().cafile
    settings = SourceSettings(allow_addresses=OPENED, ca_bundle=other, s3_ca_bundle=str(bundle))
    secret = Credentials(keys_of(behind_tls, AWS_ENDPOINT_URL=behind_tls.endpoint), (place_of(behind_tls),))
    source = open_source(parse_uri("s3://bucket/m"), secret, settings)
    assert len(source.resolve().files) == 2
    source.close()
