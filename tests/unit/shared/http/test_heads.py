import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.http.heads import RemoteProtocolError, parse_head


def head(*lines: bytes) -> bytes:
    return b"\r\n".join((b"HTTP/1.1 200 OK", *lines))


def test_header_names_ignore_case_and_repeated_headers_are_joined() -> None:
    found = parse_head(head(b"Content-Length: 5", b"X-A:1", b"x-a:  2 "), "GET")
    assert (found.status, found.length, found.keep_alive) == (200, 5, True)
    assert found.headers["x-A"] == "1, 2"
    assert "nothing" not in found.headers
    assert found.headers.get("nothing") is None


@pytest.mark.parametrize(
    ("text", "keep_alive"),
    [
        (b"HTTP/1.1 200 OK\r\nConnection: close", False),
        (b"HTTP/1.0 200 OK", False),
        (b"HTTP/1.0 200 OK\r\nConnection: keep-alive", True),
        (b"HTTP/1.1 200", True),
    ],
)
def test_keep_alive_follows_from_the_http_version_and_the_connection_header(text: bytes, *, keep_alive: bool) -> None:
    assert parse_head(text, "GET").keep_alive is keep_alive


@pytest.mark.parametrize("status", [b"204", b"304"])
def test_answers_that_cannot_have_a_body_have_length_zero(status: bytes) -> None:
    assert parse_head(b"HTTP/1.1 " + status + b" x\r\nTransfer-Encoding: chunked", "GET").length == 0
    assert parse_head(head(b"Content-Length: 7"), "HEAD").length == 0


def test_a_body_that_is_chunked_or_ends_with_the_connection_has_no_length() -> None:
    chunked = parse_head(head(b"Transfer-Encoding: Chunked", b"Content-Length: 3"), "GET")
    assert (chunked.length, chunked.chunked) == (None, True)
    rest = parse_head(head(), "GET")
    assert (rest.length, rest.chunked) == (None, False)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"HTTP/2 200",
        b"HTTP/1.1 20",
        b"HTTP/1.1 2000 x",
        head(b"Content-Length: 1", b"Content-Length: 2"),
        head(b"Content-Length: -1"),
        head(b"Content-Length: 0x10"),
        head("Content-Length: ٣".encode()),
        head(b"Transfer-Encoding: gzip, chunked"),
        head(b"no colon"),
        head(b" folded: line"),
        head(b"two words: x"),
        head(b": no name"),
    ],
)
def test_ambiguous_heads_are_refused(text: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        parse_head(text, "GET")


def test_a_repeated_equal_content_length_is_accepted() -> None:
    assert parse_head(head(b"Content-Length: 2", b"Content-Length: 2"), "GET").length == 2


@given(st.binary(max_size=200))
def test_any_bytes_are_a_head_or_refused(text: bytes) -> None:
    try:
        parse_head(text, "GET")
    except RemoteProtocolError:
        return


def test_a_header_is_8_kib_at_most() -> None:
    assert parse_head(head(b"X-A: " + b"x" * 8000), "GET").headers["x-a"] == "x" * 8000
    for line in (b"X-A: " + b"x" * 9000, b"x" * 9000 + b": a"):
        with pytest.raises(RemoteProtocolError, match="limit of 8192"):
            parse_head(head(line), "GET")
