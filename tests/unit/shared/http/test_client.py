import ssl
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import trustme

from rig.scripted_http import Answer, ScriptedRequest, ScriptedServer, reply, scripted
from shared.errors import AddressRefused, InvalidURI, Unreachable
from shared.http.client import HttpClient, Request, decide_redirect
from shared.sources.settings import SourceSettings

Serve = Callable[[Answer], ScriptedServer]
LOOPBACK = SourceSettings(allow_addresses=("127.0.0.0/8",), connect_timeout_s=30)
HASTY = replace(LOOPBACK, read_timeout_s=3)  # responses arrive sooner, even on a busy machine


@pytest.fixture
def client() -> Iterator[HttpClient]:
    client = HttpClient(LOOPBACK)
    yield client
    client.close()


def read_all(client: HttpClient, call: Request) -> bytes:
    answer = client.send(call)
    try:
        buffer = memoryview(bytearray(1 << 20))
        body = b""
        while size := answer.readinto(buffer):
            body += buffer[:size]
        return body
    finally:
        answer.close()


def test_keeps_a_connection_whose_answer_was_read(serve: Serve, client: HttpClient) -> None:
    server = serve(lambda _: reply(200, b"abc"))
    assert [read_all(client, Request(f"{server.url}/x")) for _ in range(3)] == [b"abc"] * 3
    assert server.connections == 1


def test_drops_a_connection_whose_answer_was_not_read(serve: Serve, client: HttpClient) -> None:
    server = serve(lambda _: reply(200, b"abc"))
    client.send(Request(f"{server.url}/x")).close()
    assert read_all(client, Request(f"{server.url}/x")) == b"abc"
    assert server.connections == 2


def test_asks_again_when_a_kept_connection_was_closed_meanwhile(serve: Serve, client: HttpClient) -> None:
    server = serve(lambda _: reply(200, b"abc"))
    read_all(client, Request(f"{server.url}/x"))
    server.drop_connections()
    assert read_all(client, Request(f"{server.url}/x")) == b"abc"


def test_a_new_connection_closed_without_an_answer_raises_unreachable(serve: Serve, client: HttpClient) -> None:
    server = serve(lambda _: b"")
    with pytest.raises(Unreachable, match=f"127.0.0.1:{server.port}.*closed the connection"):
        client.send(Request(f"{server.url}/x"))


def test_reads_chunks_and_answers_that_end_with_the_connection(serve: Serve, client: HttpClient) -> None:
    chunked = reply(200, b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", Content_Length="", Transfer_Encoding="chunked")
    until_close = reply(200, b"abcde", Content_Length="", Connection="close")
    server = serve(lambda asked: chunked if asked.target == "/chunked" else until_close)
    assert read_all(client, Request(f"{server.url}/chunked")) == b"abcde"
    assert read_all(client, Request(f"{server.url}/close")) == b"abcde"


@pytest.mark.parametrize(
    "answer",
    [
        reply(200, b"abc", Content_Length="9", Connection="close"),
        reply(200, b"9\r\nabc", Content_Length="", Transfer_Encoding="chunked", Connection="close"),
    ],
)
def test_a_truncated_body_delivers_its_bytes_before_the_error(serve: Serve, client: HttpClient, answer: bytes) -> None:
    reply_ = client.send(Request(f"{serve(lambda _: answer).url}/x"))
    buffer = memoryview(bytearray(100))
    assert bytes(buffer[: reply_.readinto(buffer)]) == b"abc"
    for _ in range(2):
        with pytest.raises(Unreachable, match="early"):
            reply_.readinto(buffer)
    reply_.close()


def test_a_stall_raises_unreachable_without_showing_the_query(serve: Serve) -> None:
    server, client = serve(lambda _: reply(200, b"abc", Content_Length="9")), HttpClient(HASTY)
    answer = client.send(Request(f"{server.url}/x?signature=secret"))
    buffer = memoryview(bytearray(100))
    answer.readinto(buffer)
    with pytest.raises(Unreachable, match="timeout") as caught:
        answer.readinto(buffer)
    assert "secret" not in str(caught.value)
    answer.close()
    client.close()


@pytest.mark.parametrize("garbage", [b"\x16\x03\x01 no http\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n"])
def test_an_answer_that_is_not_http_raises_unreachable(serve: Serve, client: HttpClient, garbage: bytes) -> None:
    with pytest.raises(Unreachable, match="not valid HTTP"):
        client.send(Request(f"{serve(lambda _: garbage).url}/x?signature=secret"))


def test_secrets_follow_within_an_origin_and_never_to_another(serve: Serve, client: HttpClient) -> None:
    other = serve(lambda _: reply(200, b"there"))

    def answer(asked: ScriptedRequest) -> bytes:
        return reply(307, Location="/b") if asked.target == "/a" else reply(302, Location=f"{other.url}/c?sig=s")

    first = serve(answer)
    call = Request(f"{first.url}/a", headers={"Range": "bytes=0-4"}, secrets={"Authorization": "Bearer t"})
    assert read_all(client, call) == b"there"
    assert [asked.headers.get("authorization") for asked in first.asked] == ["Bearer t", "Bearer t"]
    assert "authorization" not in other.asked[0].headers
    assert other.asked[0].headers["range"] == "bytes=0-4"
    assert other.asked[0].target == "/c?sig=s"
    assert other.asked[0].headers["host"] == f"127.0.0.1:{other.port}"


def test_secrets_are_not_restored_by_a_redirect_back_to_their_origin() -> None:
    there = decide_redirect(Request("https://a.test/x", secrets={"Authorization": "t"}), 302, "https://b.test/x")
    assert decide_redirect(there, 302, "https://a.test/x").secrets == {}


@pytest.mark.parametrize("location", ["https://a.test:444/x", "https://a.test.evil.test/x", "//b.test/x"])
def test_another_port_or_name_is_another_origin(location: str) -> None:
    assert decide_redirect(Request("https://a.test/x", secrets={"Authorization": "t"}), 302, location).secrets == {}


def test_redirects_are_bounded(serve: Serve, client: HttpClient) -> None:
    server = serve(lambda _: reply(302, Location="/again"))
    with pytest.raises(Unreachable, match="sent too many redirects"):
        client.send(Request(f"{server.url}/x"))
    assert len(server.asked) == 6


@pytest.mark.parametrize(
    ("location", "error"),
    [
        ("http://a.test/x", AddressRefused),
        ("file:///etc/passwd", AddressRefused),
        ("ftp://a.test/x", AddressRefused),
        ("https://:80/x", InvalidURI),
        ("https://a.test:port/", InvalidURI),
        ("", Unreachable),
        ("https://[::1", Unreachable),
    ],
)
def test_refuses_a_redirect_that_is_not_an_https_url(location: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        decide_redirect(Request("https://a.test/x"), 302, location)


def test_blanks_and_non_ascii_bytes_of_a_location_are_quoted() -> None:
    assert decide_redirect(Request("https://a.test/x"), 302, "/a b\xc3\xa9%20").url == "https://a.test/a%20b%C3%A9%20"


def test_a_redirect_to_an_address_that_is_not_allowed_is_refused(serve: Serve) -> None:
    inner = serve(lambda _: reply(200, b"inner"))
    outer = serve(lambda _: reply(302, Location=f"{inner.url}/x"))
    client = HttpClient(SourceSettings(hf_endpoint=outer.url))
    with pytest.raises(AddressRefused, match=r"127\.0\.0\.1 \(loopback\).*LARDER_ALLOW_ADDRESSES"):
        client.send(Request(f"{outer.url}/x"))
    client.close()
    assert inner.asked == []


def test_checks_certificates(tmp_path_factory: pytest.TempPathFactory) -> None:
    authority = trustme.CA()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    bundle = tmp_path_factory.mktemp("ca") / "ca.pem"
    authority.cert_pem.write_to_path(str(bundle))
    with scripted(lambda _: reply(200, b"abc"), tls) as server:
        trusting = HttpClient(SourceSettings(allow_addresses=("127.0.0.1",), ca_bundle=str(bundle)))
        assert read_all(trusting, Request(f"{server.url}/x")) == b"abc"
        trusting.close()
        with pytest.raises(Unreachable, match=r"certificate is not trusted.*SSL_CERT_FILE"):
            HttpClient(LOOPBACK).send(Request(f"{server.url}/x"))
        with pytest.raises(Unreachable, match="certificate is not trusted"):
            trusting.send(Request(f"https://localhost:{server.port}/x"))


def test_a_missing_ca_bundle_is_named() -> None:
    client = HttpClient(SourceSettings(allow_addresses=("127.0.0.1",), ca_bundle="/nowhere.pem"))
    with scripted(lambda _: b"") as server, pytest.raises(Unreachable, match=r"/nowhere\.pem"):
        client.send(Request(f"https://127.0.0.1:{server.port}/x"))


def test_interim_answers_are_skipped_up_to_a_limit(serve: Serve, client: HttpClient) -> None:
    server = serve(lambda _: b"HTTP/1.1 103 Early\r\n\r\n" + reply(200, b"body"))
    assert client.send(Request(server.url)).read_all(100) == b"body"
    server.answer = lambda _: b"HTTP/1.1 100 Continue\r\n\r\n" * 1000
    with pytest.raises(Unreachable, match="interim"):
        client.send(Request(server.url))


@pytest.mark.parametrize("path", ["/a b", "/a\tHTTP/1.1", "/a\x0bb", "/a\r\nX: y"])
def test_a_url_cannot_inject_a_request_line(serve: Serve, client: HttpClient, path: str) -> None:
    server = serve(lambda _: reply(200))
    with pytest.raises(InvalidURI):
        client.send(Request(f"{server.url}{path}"))
    assert server.asked == []
