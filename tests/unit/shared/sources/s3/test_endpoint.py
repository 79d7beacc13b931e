"""The server of a bucket: the administrator's, the one that a Secret names, or AWS."""

import socket
from math import inf
from typing import Any

import pytest

from agent.store.content_keys import source_key
from shared.errors import AddressRefused, AuthDenied, InvalidSettings
from shared.http.client import HttpClient
from shared.http.connection_pool import ConnectionPool
from shared.http.origins import origin_of
from shared.manifest import File
from shared.sources.port import Credentials
from shared.sources.s3.endpoint import named_endpoint
from shared.sources.s3.listing import list_paths
from shared.sources.s3.requests import S3Requests
from shared.sources.s3.source import S3Source
from shared.sources.settings import SourceSettings, settings_from_environ
from shared.uri.buckets import S3Uri
from shared.uri.model_uri import parse_uri

KEYS = {"AWS_ACCESS_KEY_ID": "AKIA", "AWS_SECRET_ACCESS_KEY": "s3cret"}
VIRTUAL = SourceSettings(s3_endpoint="https://s3.test:9", s3_addressing="virtual")


def requests(endpoint: str, hosts: tuple[str, ...] = (), **more: Any) -> S3Requests:
    arguments = {"settings": SourceSettings(), **more}
    return S3Requests("bucket", "us-east-1", Credentials({**KEYS, "AWS_ENDPOINT_URL": endpoint}, hosts), **arguments)


@pytest.mark.parametrize(
    ("text", "endpoint"),
    [
        ("https://s3.test", "s3.test:443"),
        (" HTTPS://S3.Test:9000/\n", "s3.test:9000"),
        ("https://10.1.2.3:9000", "10.1.2.3:9000"),
        ("", ""),
    ],
)
def test_an_endpoint_from_a_secret_is_normalised_to_host_and_port(text: str, endpoint: str) -> None:
    assert named_endpoint({"AWS_ENDPOINT_URL": text}, SourceSettings()) == endpoint


@pytest.mark.parametrize(
    "text",
    [
        "http://s3.test", "s3.test", "ftp://s3.test", "https://", "https://s3.test/path", "https://s3.test?x", "https://s3.test#x",
        "https://u:passw0rd@s3.test", "https://s3.test:0", "https://s3.test:65536", "https://s3.test:x", "https://s3..test",
        "https://s3.test\\@evil.test", "https://s3.test\nHost: x", "https://[::1]", "https://.test", "https://é.test",
    ],
)  # fmt: skip
def test_an_endpoint_with_more_than_a_server_is_refused_and_not_shown(text: str) -> None:
    with pytest.raises(AuthDenied, match=r"AWS_ENDPOINT_URL .* write https://HOST") as refused:
        _ = requests(text).endpoint
    assert "test" not in str(refused.value)


def test_the_administrators_endpoint_comes_first() -> None:
    asked = requests("https://evil.test", settings=SourceSettings(s3_endpoint="http://s3.test:9"))
    assert asked.url_of("k") == "http://s3.test:9/bucket/k"
    assert asked.grant.values["AWS_SECRET_ACCESS_KEY"] == "s3cret"


def test_credentials_reach_a_named_endpoint_only_if_the_secret_names_its_host() -> None:
    assert requests("https://s3.test", ("s3.test",), pinned="s3.test:443").grant.values == KEYS
    assert requests("https://s3.test", ("*.test",), pinned="s3.test:443").url_of("k") == "https://s3.test:443/bucket/k"
    for hosts in ((), ("other.test",), ("*.s3.test",)):
        withheld = requests("https://s3.test", hosts, pinned="s3.test:443")
        assert withheld.grant.withheld
        assert withheld.build_request("GET", "k", {}).secrets == {}


@pytest.mark.parametrize("now", ["https://other.test:9", "", "https://s3.test"])
def test_objects_listed_at_one_endpoint_are_not_requested_at_another(now: str) -> None:
    with pytest.raises(AuthDenied, match=r"were listed at s3\.test:9, .* refresh the model"):
        _ = requests(now, pinned="s3.test:9").endpoint
    assert requests("https://s3.test:9", pinned="s3.test:9").endpoint == "https://s3.test:9"


def test_objects_listed_at_aws_are_not_fetched_from_an_endpoint_of_a_secret() -> None:
    secret = Credentials({**KEYS, "AWS_ENDPOINT_URL": "https://s3.test"}, ("s3.test",))
    source = S3Source(parse_uri("s3://bucket@us-east-1/m"), secret, SourceSettings())
    with pytest.raises(AuthDenied, match=r"the configured endpoint, .* is s3\.test:443; .* refresh the model"):
        source.open(File("x", 1))
    source.close()


def test_the_same_bucket_at_another_endpoint_is_another_source() -> None:
    places = {source_key(f"s3://bucket@us-east-1{at}/m") for at in ("", "@s3.test:443", "@s3.test:9", "@evil.test:443")}
    assert len(places) == 4
    assert parse_uri("s3://bucket@us-east-1@s3.test:9/m") == S3Uri("bucket", "m", "us-east-1", "s3.test:9")


def test_the_address_of_an_endpoint_is_checked_before_listing() -> None:
    client = HttpClient(SourceSettings())
    with pytest.raises(AddressRefused, match=r"127\.0\.0\.1 \(loopback\)"):
        list_paths(S3Uri("bucket", "m"), requests("https://127.0.0.1:9", pinned="127.0.0.1:9"), client, inf)
    client.close()


@pytest.mark.parametrize(
    ("bucket", "settings", "url"),
    [
        ("bucket", VIRTUAL, "https://bucket.s3.test:9/k"),
        ("a.bucket", VIRTUAL, "https://s3.test:9/a.bucket/k"),
        ("bucket", SourceSettings(s3_endpoint="https://s3.test:9"), "https://s3.test:9/bucket/k"),
        ("bucket", SourceSettings(s3_addressing="virtual"), "https://bucket.s3.us-east-1.amazonaws.com/k"),
        ("bucket", SourceSettings(s3_addressing="path"), "https://bucket.s3.us-east-1.amazonaws.com/k"),
    ],
)
def test_the_bucket_is_in_the_host_or_the_path_as_the_addressing_style_requires(
    bucket: str, settings: SourceSettings, url: str
) -> None:
    assert S3Requests(bucket, "us-east-1", Credentials(), settings).url_of("k") == url


@pytest.mark.parametrize(
    ("url", "is_trusted"),
    [
        ("https://bucket.s3.test:9", True),
        ("https://s3.test:9", True),
        ("https://bucket.s3.test", False),
        ("https://a.bucket.s3.test:9", False),
        ("https://buckets3.test:9", False),
        ("https://test:9", False),
    ],
)
def test_the_bucket_host_of_a_trusted_endpoint_is_trusted_too(
    url: str, monkeypatch: pytest.MonkeyPatch, *, is_trusted: bool
) -> None:
    loopback = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 9))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [loopback])
    pool = ConnectionPool(VIRTUAL)
    with pytest.raises(Exception, match="does not answer" if is_trusted else "must not be contacted"):
        pool.open(origin_of(url))


@pytest.mark.parametrize(
    ("environ", "phrase"),
    [
        ({"LARDER_S3_ADDRESSING": "auto"}, "neither path nor virtual"),
        ({"LARDER_S3_ADDRESSING": "virtual", "AWS_ENDPOINT_URL": "http://10.0.0.1:9"}, "IP address"),
    ],
)
def test_an_invalid_addressing_style_is_reported(environ: dict[str, str], phrase: str) -> None:
    with pytest.raises(InvalidSettings, match=f"^LARDER_S3_ADDRESSING: .*{phrase}"):
        settings_from_environ(environ)
