"""What servers may expect of every source: that it respects requested waits, and sends no futile requests."""

import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from rig.scripted_http import Answer, ScriptedRequest, ScriptedServer, reply, scripted
from shared.errors import AuthDenied, LarderError, RateLimited, Unreachable
from shared.manifest import File
from shared.sources.listing_limits import MAX_PAGES
from shared.sources.port import ANONYMOUS, Credentials, Source
from shared.sources.schemes import open_source
from shared.uri.model_uri import parse_uri
from tests.conformance.sources.places import KINDS, PLACES

FILE = File("model.gguf", 10, f"sha256:{'0' * 64}")


class Scripted:
    """Sources of one kind over servers that a test scripts."""

    def __init__(self, kind: str, stack: ExitStack, bundle: Path, tls: ssl.SSLContext) -> None:
        self.kind, self.place = kind, PLACES[kind]
        self._stack, self._bundle, self._tls = stack, bundle, tls

    def serve(self, answer: Answer) -> ScriptedServer:
        return self._stack.enter_context(scripted(answer, self._tls if self.place.tls else None))

    def open(self, server: ScriptedServer, credentials: Credentials = ANONYMOUS) -> Source:
        settings = self.place.settings(server.url, str(self._bundle))
        source = open_source(parse_uri(self.place.uri(server.url)), credentials, settings)
        self._stack.callback(source.close)
        return source


@pytest.fixture(params=KINDS)
def scripts(request: pytest.FixtureRequest, certificates: tuple[Path, ssl.SSLContext]) -> Iterator[Scripted]:
    """Each kind in turn."""
    with ExitStack() as stack:
        yield Scripted(request.param, stack, *certificates)


def resolve(source: Source) -> None:
    source.resolve()


def open_file(source: Source) -> None:
    source.open(FILE).close()


ACTS = pytest.mark.parametrize("act", [resolve, open_file])
Act = Callable[[Source], None]


@ACTS
@pytest.mark.parametrize("status", [429, 503])
def test_a_server_that_states_a_retry_time_receives_no_further_request(
    scripts: Scripted, act: Act, status: int
) -> None:
    server = scripts.serve(lambda _: reply(status, Retry_After="300"))
    with pytest.raises(RateLimited, match=r"^127\.0\.0\.1 ") as asked:
        act(scripts.open(server))
    assert asked.value.after_s == 300
    assert len(server.asked) == 1


@ACTS
def test_a_busy_server_without_a_retry_time_receives_no_further_request(scripts: Scripted, act: Act) -> None:
    server = scripts.serve(lambda _: reply(429))
    with pytest.raises(RateLimited) as asked:
        act(scripts.open(server))
    assert asked.value.after_s > 0
    assert len(server.asked) == 1


def test_later_requests_also_wait_for_the_stated_retry_time(scripts: Scripted) -> None:
    server = scripts.serve(lambda _: reply(429, Retry_After="300"))
    source = scripts.open(server)
    for _ in range(3):
        with pytest.raises(RateLimited) as asked:
            source.open(FILE)
        assert 0 < asked.value.after_s <= 300
    assert len(server.asked) == 1


@ACTS
def test_a_redirect_loop_is_abandoned_after_a_few_hops_and_not_retried(scripts: Scripted, act: Act) -> None:
    def onwards(asked: ScriptedRequest) -> bytes:
        return reply(302, Location=f"{asked.target.partition('?')[0]}?{len(server.asked)}")

    server = scripts.serve(onwards)
    with pytest.raises(Unreachable) as caught:
        act(scripts.open(server))
    assert len(server.asked) <= 6
    assert caught.value.tries == 1


@ACTS
@pytest.mark.parametrize("scripts", [kind for kind in KINDS if PLACES[kind].half], indirect=True)
def test_incomplete_keys_are_refused_before_any_connection_is_made(scripts: Scripted, act: Act) -> None:
    server = scripts.serve(lambda _: reply(200))
    with pytest.raises(AuthDenied, match=r"^the Secret has .* but not .*, so no credentials are sent; add "):
        act(scripts.open(server, Credentials(scripts.place.half)))
    assert server.connections == 0


@ACTS
@pytest.mark.parametrize("scripts", [kind for kind in KINDS if PLACES[kind].keys], indirect=True)
def test_credentials_are_not_sent_to_another_port_after_a_redirect(scripts: Scripted, act: Act) -> None:
    other = scripts.serve(lambda _: reply(404))
    server = scripts.serve(lambda asked: reply(307, Location=f"{other.url}{asked.target}"))
    credentials = Credentials(scripts.place.keys, (server.url.partition("://")[2],))
    with pytest.raises(LarderError):
        act(scripts.open(server, credentials))
    assert "authorization" in server.asked[0].headers
    assert all("authorization" not in asked.headers for asked in other.asked)


@pytest.mark.parametrize("scripts", ["https"], indirect=True)
def test_credentials_for_one_port_are_not_sent_to_another_port_of_the_host(scripts: Scripted) -> None:
    server = scripts.serve(lambda _: reply(401))
    places = ("127.0.0.1", f"127.0.0.1:{server.port + 1}")
    with pytest.raises(AuthDenied, match=f"add 127.0.0.1:{server.port} to the Secret's annotation"):
        scripts.open(server, Credentials(scripts.place.keys, places)).resolve()
    assert server.asked
    assert all("authorization" not in asked.headers for asked in server.asked)


EMPTY_PAGES = {
    "gs": b'{"nextPageToken": "more"}',
    "az": b"<EnumerationResults><Blobs/><NextMarker>more</NextMarker></EnumerationResults>",
    "oci": b'{"objects": [], "nextStartWith": "more"}',
}


@pytest.mark.parametrize("scripts", EMPTY_PAGES, indirect=True)
def test_an_endless_listing_of_empty_pages_is_abandoned(scripts: Scripted) -> None:
    page = reply(200, EMPTY_PAGES[scripts.kind])
    server = scripts.serve(lambda asked: page if "prefix=" in asked.target else reply(404))
    with pytest.raises(Unreachable, match=f"more than {MAX_PAGES} pages"):
        scripts.open(server).resolve()
    assert len(server.asked) <= MAX_PAGES + 2


@ACTS
@pytest.mark.parametrize("length", ["abc", "5, 6", "-1", "9" * 40])
def test_invalid_lengths_raise_only_larder_errors(scripts: Scripted, act: Act, length: str) -> None:
    def answer(asked: ScriptedRequest) -> bytes:
        body = b"" if asked.method == "HEAD" else b"0\r\n\r\n"
        return reply(200, body, Content_Length=length, Transfer_Encoding="chunked", Connection="close")

    with suppress(LarderError):  # an empty file is invalid, and any other error would be a bug
        act(scripts.open(scripts.serve(answer)))
