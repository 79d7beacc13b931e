import base64
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rig.scripted_http import Answer, ScriptedRequest, ScriptedServer, reply
from shared.errors import AuthDenied, LarderError, RateLimited, Unreachable
from shared.manifest import File
from shared.sources.azure.listing import Blob, BlobPage, file_of, parse_page
from shared.sources.azure.requests import sign, string_to_sign
from shared.sources.azure.source import AzureSource
from shared.sources.port import ANONYMOUS, Credentials
from shared.sources.settings import SourceSettings
from shared.uri.model_uri import parse_uri

Serve = Callable[[Answer], ScriptedServer]
KEY = base64.b64encode(b"0" * 64).decode()


def test_the_string_to_sign_is_the_one_of_the_documentation() -> None:
    # "Authorize with Shared Key", the example of Get Container Metadata for versions since 2014-02-14.
    url = "https://myaccount.blob.core.windows.net/mycontainer?restype=container&comp=metadata&timeout=20"
    headers = {"x-ms-version": "2014-02-14", "x-ms-date": "Fri, 26 Jun 2015 23:39:12 GMT"}
    assert string_to_sign("GET", url, "myaccount", headers) == (
        "GET\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:Fri, 26 Jun 2015 23:39:12 GMT\nx-ms-version:2014-02-14\n"
        "/myaccount/mycontainer\ncomp:metadata\nrestype:container\ntimeout:20"
    )


def test_the_string_to_sign_includes_range_and_etag() -> None:
    text = string_to_sign("GET", "https://h/c/a%20b", "acct", {"If-Match": '"e"', "Range": "bytes=0-1", "X-Ms-B": "2"})
    assert text == 'GET\n\n\n\n\n\n\n\n"e"\n\n\nbytes=0-1\nx-ms-b:2\n/acct/c/a%20b'


@pytest.mark.parametrize("key", ["%%%", "cl\u00e9="])
def test_a_key_that_is_invalid_is_refused(key: str) -> None:
    with pytest.raises(AuthDenied, match="base64"):
        sign("text", key)


def page(*blobs: str, marker: str = "") -> bytes:
    return (
        f'\ufeff<?xml version="1.0" encoding="utf-8"?><EnumerationResults><Blobs>{"".join(blobs)}</Blobs>'
        f"<NextMarker>{marker}</NextMarker></EnumerationResults>"
    ).encode()


def blob(name: str, size: int = 1, properties: str = "", metadata: str = "", encoded: str = "") -> str:
    return (
        f"<Blob><Name{encoded}>{name}</Name><Properties><Content-Length>{size}</Content-Length><Etag>0x1</Etag>"
        f"{properties}</Properties><Metadata>{metadata}</Metadata></Blob>"
    )


def test_a_listing_page_is_parsed_into_blobs_directories_and_a_marker() -> None:
    body = page(
        blob("a &amp; b", 5, "<Content-MD5>AAAAAAAAAAAAAAAAAAAAAA==</Content-MD5>"),
        blob("d", 0, "<ResourceType>directory</ResourceType>"),
        blob("e", 0, metadata="<hdi_isfolder>true</hdi_isfolder>"),
        blob("x%EF%BF%BE", encoded=' Encoded="true"'),
        "<BlobPrefix><Name>p/</Name></BlobPrefix>",
        marker="next",
    )
    assert parse_page(body, "h") == BlobPage(
        (
            Blob("a & b", 5, '"0x1"', "AAAAAAAAAAAAAAAAAAAAAA=="),
            Blob("d", 0, '"0x1"', "", is_directory=True),
            Blob("e", 0, '"0x1"', "", is_directory=True),
            Blob("x\ufffe", 1, '"0x1"', ""),
        ),
        "next",
    )


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"\xff\xfe<\x00a\x00",
        b'<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><EnumerationResults>&b;</EnumerationResults>',
        b'<?xml version="1.0"?><!DOCTYPE x SYSTEM "file:///etc/passwd"><EnumerationResults/>',
        '<?xml version="1.0" encoding="utf-16"?><!DOCTYPE x []><a/>'.encode("utf-16"),
        page(blob("")),
        page(blob("a", properties="<Content-Length>many</Content-Length>")),
    ],
)
def test_a_malformed_listing_is_refused_and_nothing_is_expanded(body: bytes) -> None:
    with pytest.raises(Unreachable, match="h sent a listing that is not valid"):
        parse_page(body, "h")


@given(st.binary(max_size=100))
def test_any_bytes_are_a_page_or_refused(body: bytes) -> None:
    with suppress(Unreachable):
        assert parse_page(body, "h").blobs == ()


@pytest.mark.parametrize(
    ("md5", "digest"), [("1B2M2Y8AsgTpgAmY7PhCfg==", "md5:d41d8cd98f00b204e9800998ecf8427e"), ("x", ""), ("", "")]
)
def test_the_digest_is_the_content_md5_of_the_blob(md5: str, digest: str) -> None:
    assert file_of("a", Blob("m/a", 0, "", md5)).digest == digest


def source_of(server: ScriptedServer, credentials: Credentials = ANONYMOUS) -> AzureSource:
    return AzureSource(parse_uri("az://account/container/m"), credentials, SourceSettings(azure_endpoint=server.url))


def test_lists_every_page_and_leaves_directories_out(serve: Serve) -> None:
    def answer(asked: ScriptedRequest) -> bytes:
        if asked.method == "HEAD":
            return reply(200, Content_Length="0", x_ms_resource_type="directory")
        if "marker=two" in asked.target:
            return reply(200, page(blob("m/d/b"), blob("m-beside/x")))
        return reply(
            200,
            page(blob("m/a"), blob("m/d", 0, "<ResourceType>directory</ResourceType>"), blob("m/e/", 0), marker="two"),
        )

    source = source_of(serve(answer))
    assert [f.path for f in source.resolve().files] == ["a", "d/b"]
    source.close()


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ({}, ""),
        ({"AZURE_STORAGE_KEY": KEY}, "SharedKey account:"),
        ({"AZURE_STORAGE_ACCESS_KEY": KEY}, "SharedKey account:"),
        ({"AZURE_STORAGE_SAS_TOKEN": "?sv=1&sig=a%2Bb"}, ""),
    ],
)
def test_the_credentials_decide_how_a_request_is_authenticated(
    serve: Serve, values: dict[str, str], shown: str
) -> None:
    server = serve(lambda _: reply(200, b"x"))
    source = source_of(server, Credentials(values))
    source.open(File("w", 1)).close()
    source.close()
    asked = server.asked[0]
    assert asked.headers.get("authorization", "").startswith(shown)
    assert ("authorization" in asked.headers) == bool(shown)
    assert asked.target == "/account/container/m/w" + ("?sv=1&sig=a%2Bb" if "AZURE_STORAGE_SAS_TOKEN" in values else "")


@pytest.mark.parametrize(
    "values",
    [
        {"AZURE_STORAGE_KEY": "no base64"},
        {"AZURE_STORAGE_SAS_TOKEN": "sig=a b"},
        {"AZURE_STORAGE_SAS_TOKEN": "sig=a\r\nX: y"},
        {"AZURE_TENANT_ID": "../x", "AZURE_CLIENT_ID": "c", "AZURE_CLIENT_SECRET": "s"},
    ],
)
def test_a_value_that_cannot_be_sent_is_refused(serve: Serve, values: dict[str, str]) -> None:
    server = serve(lambda _: reply(200, b"x"))
    source = source_of(server, Credentials(values))
    with pytest.raises(AuthDenied, match=r"AZURE|Azure"):
        source.open(File("w", 1))
    assert not server.asked


@pytest.mark.parametrize(
    ("status", "code", "error"),
    [
        (403, "AuthenticationFailed", AuthDenied),
        (409, "PublicAccessNotPermitted", AuthDenied),
        (403, "AuthorizationPermissionMismatch", AuthDenied),
        (503, "ServerBusy", Unreachable),
        (429, "", RateLimited),
        (302, "", Unreachable),
    ],
)
def test_failures_of_azure_map_to_errors_that_hide_the_signature(
    serve: Serve, status: int, code: str, error: type[LarderError]
) -> None:
    server = serve(lambda _: reply(status, x_ms_error_code=code, Location="http://evil.test/"))
    source = source_of(server, Credentials({"AZURE_STORAGE_SAS_TOKEN": "sig=5ecret"}))
    for act in (source.resolve, lambda: source.open(File("w", 1))):
        with pytest.raises(error) as failed:
            act()
        assert "5ecret" not in str(failed.value)
    source.close()


@pytest.mark.parametrize("length", ["-5", "junk", "9" * 30, "9" * 5000, "1.5"])
def test_a_length_that_is_invalid_is_reported(length: str) -> None:
    blob = f"<Blob><Name>a</Name><Properties><Content-Length>{length}</Content-Length></Properties></Blob>"
    with pytest.raises(Unreachable, match="a listing that is not valid for Azure"):
        parse_page(f"<EnumerationResults><Blobs>{blob}</Blobs></EnumerationResults>".encode(), "host")


def test_a_listing_page_of_the_largest_requested_size_is_read() -> None:
    properties = "".join(f"<Property-{n}>a value</Property-{n}>" for n in range(22))
    known = "<Content-Length>1</Content-Length><Etag>0x8</Etag>"
    metadata = "".join(f"<key{n}>value</key{n}>" for n in range(40))
    blob = f"<Blob><Name>m/a</Name><Properties>{known}{properties}</Properties><Metadata>{metadata}</Metadata></Blob>"
    page = f'<?xml version="1.0"?><EnumerationResults><Blobs>{blob * 1000}</Blobs></EnumerationResults>'
    assert len(parse_page(page.encode(), "a.test").blobs) == 1000
