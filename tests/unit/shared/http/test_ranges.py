from collections.abc import Callable, Iterator

import pytest

from rig.scripted_http import Answer, ScriptedRequest, ScriptedServer, reply
from shared.byte_ranges import ByteRange
from shared.errors import LarderError, SourceChanged, SourceNotFound, Unreachable
from shared.http.client import HttpClient, Request, Response
from shared.http.ranges import decide_skip, has_changed, open_range, precondition, validator_of
from shared.manifest import File
from shared.sources.settings import SourceSettings

Serve = Callable[[Answer], ScriptedServer]
CONTENT = bytes(range(100))
FILE = File("w.bin", 100, etag='"e"')
EARLIER_DATE, DATE, LATER_DATE = (f"Sat, 21 Nov 2026 10:00:0{second} GMT" for second in range(3))


@pytest.fixture
def client() -> Iterator[HttpClient]:
    client = HttpClient(SourceSettings(allow_addresses=("127.0.0.0/8",)))
    yield client
    client.close()


def read(client: HttpClient, server: ScriptedServer, offset: int = 0, length: int | None = None) -> bytes:
    def failure(answer: Response) -> LarderError:
        return SourceNotFound(f"status {answer.status}")

    body = open_range(client, Request(f"{server.url}/w.bin"), FILE, offset, length, failure=failure)
    try:
        buffer, got = memoryview(bytearray(7)), b""
        while size := body.readinto(buffer):
            got += buffer[:size]
        return got
    finally:
        body.close()


def test_requests_the_range_and_keeps_the_connection(serve: Serve, client: HttpClient) -> None:
    def answer(asked: ScriptedRequest) -> bytes:
        first, last = map(int, asked.headers["range"].removeprefix("bytes=").split("-"))
        return reply(206, CONTENT[first : last + 1], Content_Range=f"bytes {first}-{last}/100")

    server = serve(answer)
    assert read(client, server, 10, 20) == CONTENT[10:30]
    assert read(client, server, 90) == CONTENT[90:]
    assert server.connections == 1


def test_requests_a_whole_file_without_a_range(serve: Serve, client: HttpClient) -> None:
    server = serve(lambda _: reply(200, CONTENT))
    assert read(client, server) == CONTENT
    assert "range" not in server.asked[0].headers


def test_an_empty_range_causes_no_request(serve: Serve, client: HttpClient) -> None:
    server = serve(lambda _: reply(500))
    assert (read(client, server, 100), read(client, server, 5, 0)) == (b"", b"")
    assert server.asked == []


def test_the_range_is_cut_from_the_answer_of_a_server_that_ignores_ranges(serve: Serve, client: HttpClient) -> None:
    server = serve(lambda _: reply(200, CONTENT))
    assert read(client, server, 33, 5) == CONTENT[33:38]
    assert read(client, server, 98) == CONTENT[98:]


def test_bytes_before_the_range_are_skipped_in_parts_of_the_requested_size(serve: Serve, client: HttpClient) -> None:
    server = serve(lambda _: reply(200, CONTENT))
    body = open_range(client, Request(f"{server.url}/w.bin"), FILE, 33, 5, failure=lambda _: Unreachable(""))
    buffer = memoryview(bytearray(100))
    assert body.skips
    assert [body.skip(20), body.skip(0), body.skip(20), body.skip(20)] == [20, 0, 13, 0]
    assert bytes(buffer[: body.readinto(buffer)]) == CONTENT[33:38]
    body.close()


@pytest.mark.parametrize("headers", [{}, {"Content_Length": ""}])
def test_a_truncated_body_raises_unreachable(serve: Serve, client: HttpClient, headers: dict[str, str]) -> None:
    length = {"Content_Length": "100", **headers}
    server = serve(lambda _: reply(200, CONTENT[:60], Connection="close", **length))
    with pytest.raises(Unreachable, match="early"):
        read(client, server)
    with pytest.raises(Unreachable, match="early"):
        read(client, server, 80)


def test_bytes_beyond_the_listed_size_are_not_read(serve: Serve, client: HttpClient) -> None:
    server = serve(lambda _: reply(200, CONTENT + b"more", Content_Length="", Connection="close"))
    assert read(client, server) == CONTENT


def test_an_error_status_of_a_range_request_raises_the_sources_error(serve: Serve, client: HttpClient) -> None:
    server = serve(lambda _: reply(404, b"no"))
    with pytest.raises(SourceNotFound, match="status 404"):
        read(client, server)


def test_a_link_elsewhere_that_is_refused_is_requested_again(serve: Serve, client: HttpClient) -> None:
    store = serve(lambda _: reply(403))
    server = serve(lambda _: reply(302, Location=f"{store.url}/w?Signature=secret"))
    with pytest.raises(Unreachable, match="may have expired") as caught:
        read(client, server)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("status", "headers", "error"),
    [
        (206, {}, Unreachable),
        (206, {"Content-Range": "bytes 10-19"}, Unreachable),
        (206, {"Content-Range": "bytes 11-19/100"}, Unreachable),
        (206, {"Content-Range": "bytes 10-18/100"}, Unreachable),
        (206, {"Content-Range": "bytes 10-99/100"}, Unreachable),
        (206, {"Content-Range": "bytes 10-19/101"}, SourceChanged),
        (206, {"Content-Range": "bytes 10-19/100", "ETag": '"f"'}, SourceChanged),
        (200, {"Content-Length": "99"}, SourceChanged),
        (200, {"Content-Length": "100", "ETag": '"f"'}, SourceChanged),
    ],
)
def test_a_response_with_a_wrong_range_is_refused(
    status: int, headers: dict[str, str], error: type[LarderError]
) -> None:
    with pytest.raises(error):
        decide_skip(status, headers, FILE, ByteRange(10, 20), "h.test")


@pytest.mark.parametrize(
    ("status", "headers", "skip"),
    [
        (206, {"Content-Range": "bytes 10-19/100"}, 0),
        (206, {"Content-Range": "Bytes 10-19/*"}, 0),
        (200, {"Content-Length": "100"}, 10),
        (200, {}, 10),
    ],
)
def test_a_response_with_the_right_range_or_the_whole_file_is_accepted(
    status: int, headers: dict[str, str], skip: int
) -> None:
    assert decide_skip(status, headers, FILE, ByteRange(10, 20), "h.test") == skip


@pytest.mark.parametrize(
    ("resolved", "present", "changed"),
    [
        ('"a"', '"a"', False), ('"a"', "a", False), ('"a"', '"b"', True), ('"a"', "", False), ("", '"b"', False),
        ('W/"a"', 'W/"a"', False), ('W/"a"', '"a"', False), ('"a"', 'W/"a"', False),
        ('W/"a"', 'W/"b"', True), ('W/"a"', '"b"', True), ('"a"', 'W/"b"', True), ('W/"a"', "", False),
    ],
)  # fmt: skip
def test_another_entity_tag_shows_the_change(resolved: str, present: str, changed: bool) -> None:  # noqa: FBT001 - a table
    headers = {"ETag": present, "Last-Modified": DATE} if present else {"Last-Modified": DATE}
    assert has_changed(resolved, headers) is changed


@pytest.mark.parametrize(("present", "changed"), [(DATE, False), (LATER_DATE, True), ("", False)])
def test_without_a_tag_a_different_date_shows_the_change(present: str, changed: bool) -> None:  # noqa: FBT001 - a table
    resolved = validator_of({"Last-Modified": DATE, "Date": LATER_DATE})
    assert has_changed(resolved, {"Last-Modified": present, "ETag": '"a"'}) is changed
    assert precondition(File("f", 1, etag=resolved)) == {}


@pytest.mark.parametrize(
    ("answered", "reported"),
    [
        (LATER_DATE, True), (DATE, False), (EARLIER_DATE, False),
        *((header, True) for header in ("", "soon", "Sat, 21 Nov 2026", f"Sat, 21 Nov {'9' * 20} 10:00:00 GMT")),
    ],
)  # fmt: skip
def test_a_last_modified_date_not_older_than_the_response_proves_nothing(answered: str, reported: bool) -> None:  # noqa: FBT001 - a table
    assert bool(validator_of({"Last-Modified": DATE, "Date": answered})) is reported


def test_only_a_strong_etag_becomes_an_if_match_header() -> None:
    assert precondition(File("f", 1, etag='"a"')) == {"If-Match": '"a"'}
    assert precondition(File("f", 1, etag='W/"a"')) == precondition(File("f", 1)) == {}
    assert validator_of({"ETag": 'W/"a"', "Last-Modified": DATE}) == 'W/"a"'
    assert validator_of({}) == ""


def test_a_file_that_is_compressed_on_its_way_is_refused() -> None:
    file = File("f", 100)
    packed = {"Content-Encoding": "gzip", "Content-Length": "50"}
    with pytest.raises(Unreachable, match="compressed"):
        decide_skip(200, packed, file, ByteRange(0, 100), "host")
    with pytest.raises(Unreachable, match="compressed"):
        decide_skip(200, {"Content-Encoding": "br"}, file, ByteRange(0, 100), "host")
    kept_packed = {"Content-Encoding": "gzip", "Content-Length": "100"}
    assert decide_skip(200, kept_packed, file, ByteRange(0, 100), "host") == 0


@pytest.mark.parametrize("length", ["7", "100", ""])
def test_a_part_that_is_compressed_on_its_way_is_refused(length: str) -> None:
    packed = {"Content-Encoding": "gzip", "Content-Range": "bytes 10-19/100", "Content-Length": length}
    with pytest.raises(Unreachable, match=r"'f' compressed .* disable compression"):
        decide_skip(206, packed, File("f", 100), ByteRange(10, 20), "host")
    assert decide_skip(206, {**packed, "Content-Length": "10"}, File("f", 100), ByteRange(10, 20), "host") == 0


@pytest.mark.parametrize("text", ["9" * 5000, "\xb2", "-1"])
def test_invalid_numbers_in_headers_raise_only_known_errors(text: str) -> None:
    ranged = {"Content-Range": f"bytes {text}-{text}/{text}"}
    with pytest.raises(Unreachable):
        decide_skip(206, ranged, File("f", 100), ByteRange(0, 100), "host")
    assert decide_skip(200, {"Content-Length": "\xb2"}, File("f", 100), ByteRange(0, 100), "host") == 0
    with pytest.raises(SourceChanged):
        decide_skip(206, {"Content-Range": "bytes 0-99/" + "9" * 5000}, File("f", 100), ByteRange(0, 100), "host")
