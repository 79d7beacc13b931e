import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest
import trustme

from rig.scripted_http import Answer, ScriptedRequest, ScriptedServer, reply, scripted
from shared.errors import (
    AddressRefused,
    AuthDenied,
    InvalidURI,
    LarderError,
    SourceChanged,
    SourceNotFound,
    UnsafePath,
)
from shared.manifest import File
from shared.sources.https.source import HttpsSource, file_name_of
from shared.sources.port import ANONYMOUS, Credentials
from shared.sources.settings import SourceSettings
from shared.uri.model_uri import parse_uri

Make = Callable[[Answer], ScriptedServer]
TOKEN = {"token": "t0p"}


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return tmp_path / "ca.pem"


@pytest.fixture
def serve_tls(bundle: Path) -> Iterator[Make]:
    authority, tls = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1", "localhost").configure_cert(tls)
    authority.cert_pem.write_to_path(str(bundle))
    with ExitStack() as stack:
        yield lambda answer: stack.enter_context(scripted(answer, tls))


@pytest.fixture
def source_of(bundle: Path) -> Iterator[Callable[..., HttpsSource]]:
    with ExitStack() as stack:

        def make(server: ScriptedServer, credentials: Credentials = ANONYMOUS, path: str = "/w.bin") -> HttpsSource:
            settings = SourceSettings(allow_addresses=("127.0.0.0/8", "::1"), ca_bundle=str(bundle))
            source = HttpsSource(parse_uri(f"{server.url}{path}"), credentials, settings)
            stack.callback(source.close)
            return source

        yield make


def test_takes_size_and_tag_from_head(serve_tls: Make, source_of: Callable[..., HttpsSource]) -> None:
    source = source_of(serve_tls(lambda _: reply(200, ETag='"e"', Content_Length="7")))
    assert source.resolve().files == (File("w.bin", 7, etag='"e"'),)


@pytest.mark.parametrize(
    ("header", "before", "after"),
    [
        ("ETag", 'W/"1"', 'W/"2"'),
        ("Last_Modified", "Sat, 21 Nov 2026 10:00:00 GMT", "Sat, 21 Nov 2026 10:00:01 GMT"),
    ],
)
def test_a_changed_weak_etag_or_date_is_detected_and_gives_a_new_revision(
    serve_tls: Make, source_of: Callable[..., HttpsSource], header: str, before: str, after: str
) -> None:
    reported = [before]

    def answer(asked: ScriptedRequest) -> bytes:
        headers = {"Content_Length": "7", header: reported[0]}
        return reply(200, b"" if asked.method == "HEAD" else b"content", **headers)

    server = serve_tls(answer)
    source = source_of(server)
    first = source.resolve()
    source.open(first.files[0]).close()
    assert "if-match" not in server.asked[-1].headers
    reported[0] = after
    with pytest.raises(SourceChanged, match="changed since it was resolved"):
        source.open(first.files[0])
    second = source.resolve()
    source.open(second.files[0]).close()
    assert first.revision != second.revision


def test_a_server_that_dates_every_response_with_the_current_time_has_a_stable_revision(
    serve_tls: Make, source_of: Callable[..., HttpsSource]
) -> None:
    seconds = count()

    def answer(asked: ScriptedRequest) -> bytes:
        now = f"Sat, 21 Nov 2026 10:00:{next(seconds):02} GMT"
        body = b"" if asked.method == "HEAD" else b"content"
        return reply(200, body, Content_Length="7", Last_Modified=now, Date=now)

    source = source_of(serve_tls(answer))
    first = source.resolve()
    source.open(first.files[0]).close()
    assert source.resolve() == first


@pytest.mark.parametrize(
    ("answer", "size"),
    [
        (reply(206, b"x", Content_Range="bytes 0-0/42"), 42),
        (reply(200, b"0123456789"), 10),
        (reply(416, Content_Range="bytes */0"), 0),
    ],
)
def test_requests_one_byte_where_head_is_not_served(
    serve_tls: Make, source_of: Callable[..., HttpsSource], answer: bytes, size: int
) -> None:
    server = serve_tls(lambda asked: reply(405) if asked.method == "HEAD" else answer)
    assert source_of(server).resolve().size_bytes == size
    assert server.asked[-1].headers["range"] == "bytes=0-0"


@pytest.mark.parametrize(
    "answer",
    [
        reply(206, b"x", Content_Range="bytes 0-0/*"),
        reply(200, b"1\r\nx\r\n0\r\n\r\n", Content_Length="", Transfer_Encoding="chunked"),
    ],
)
def test_a_server_that_does_not_state_the_size_is_named(
    serve_tls: Make, source_of: Callable[..., HttpsSource], answer: bytes
) -> None:
    server = serve_tls(lambda asked: reply(200, Content_Length="") if asked.method == "HEAD" else answer)
    with pytest.raises(InvalidURI, match=r"127\.0\.0\.1 does not state the size of"):
        source_of(server).resolve()


@pytest.mark.parametrize(("status", "error"), [(404, SourceNotFound), (403, AuthDenied)])
def test_a_refused_request_raises_the_error_of_its_status(
    serve_tls: Make, source_of: Callable[..., HttpsSource], status: int, error: type[LarderError]
) -> None:
    with pytest.raises(error, match=r"w\.bin"):
        source_of(serve_tls(lambda _: reply(status))).resolve()


def test_a_token_goes_to_named_hosts_only(serve_tls: Make, source_of: Callable[..., HttpsSource]) -> None:
    def answer(asked: ScriptedRequest) -> bytes:
        return reply(200, Content_Length="7") if asked.headers.get("authorization") == "Bearer t0p" else reply(401)

    server = serve_tls(answer)
    place = f"127.0.0.1:{server.port}"
    assert source_of(server, Credentials(TOKEN, (place,))).resolve().size_bytes == 7
    for hosts in (("other.test",), ("127.0.0.1",), (f"127.0.0.1:{server.port - 1}",), ()):
        with pytest.raises(AuthDenied, match=f"add {place} to the Secret's annotation larder.dev/hosts"):
            source_of(server, Credentials(TOKEN, hosts)).resolve()


def test_a_hub_s_token_is_sent_to_no_other_host(serve_tls: Make, source_of: Callable[..., HttpsSource]) -> None:
    server = serve_tls(lambda _: reply(200, Content_Length="7"))
    source_of(server, Credentials({"HF_TOKEN": "t0p"}, (f"127.0.0.1:{server.port}",))).resolve()
    assert "authorization" not in server.asked[0].headers


def test_a_redirect_to_plain_http_is_refused(serve_tls: Make, source_of: Callable[..., HttpsSource]) -> None:
    with scripted(lambda _: reply(200)) as plain:
        server = serve_tls(lambda _: reply(302, Location=f"{plain.url}/w.bin"))
        with pytest.raises(AddressRefused, match="plain http"):
            source_of(server, Credentials(TOKEN, (f"127.0.0.1:{server.port}",))).resolve()
        assert plain.asked == []


def test_escapes_and_query_are_sent_as_written(serve_tls: Make, source_of: Callable[..., HttpsSource]) -> None:
    server = serve_tls(lambda _: reply(200, Content_Length="7"))
    manifest = source_of(server, path="/a%20b/é c%2B.bin?v=1&w=a%2Fb").resolve()
    assert server.asked[0].target == "/a%20b/%C3%A9%20c%2B.bin?v=1&w=a%2Fb"
    assert manifest.files[0].path == "é c+.bin"


@pytest.mark.parametrize("name", ["a%2Fb", "..%2F..%2Fetc%2Fpasswd"])
def test_a_name_with_a_slash_is_unsafe(name: str) -> None:
    with pytest.raises(UnsafePath):
        file_name_of(f"https://h.test/d/{name}")


@pytest.mark.parametrize("name", ["%2E%2E", "a%00b", "a%5Cb", ".completed"])
def test_other_unsafe_names_are_refused_by_the_manifest(
    serve_tls: Make, source_of: Callable[..., HttpsSource], name: str
) -> None:
    with pytest.raises(UnsafePath):
        source_of(serve_tls(lambda _: reply(200, Content_Length="7")), path=f"/{name}").resolve()
