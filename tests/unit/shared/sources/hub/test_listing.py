"""Hubs with invalid or endless listings, and hubs that do not answer."""

import json
import ssl
from collections.abc import Callable

import pytest
import trustme

from rig.scripted_http import Answer, ScriptedRequest, ScriptedServer, reply, scripted
from shared.errors import AddressRefused, AuthDenied, LarderError, SourceNotFound, TooManyFiles, Unreachable
from shared.sources.hub.source import HubSource
from shared.sources.port import Credentials
from shared.sources.settings import SourceSettings
from shared.uri.model_uri import parse_uri

Serve = Callable[[Answer], ScriptedServer]
COMMIT = "c0ffee"
FILE = {"type": "file", "path": "a", "size": 2, "oid": "0" * 40}
LFS = {"oid": "0" * 64, "size": 2, "pointerSize": 1}


def answers(tree: object, info: object = None, **headers: str) -> Answer:
    """Return a hub with this listing; bytes as they are, anything else as JSON."""

    def answer(asked: ScriptedRequest) -> bytes:
        model = {"id": "o/m", "sha": COMMIT, "siblings": []} if info is None else info
        content = tree if "/tree/" in asked.target else model
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        return reply(200, body, Content_Type="application/json", **(headers if "/tree/" in asked.target else {}))

    return answer


def failure_of(server: ScriptedServer, token: str = "", read_timeout_s: float = 10) -> LarderError:
    settings = SourceSettings(hf_endpoint=server.url, read_timeout_s=read_timeout_s)
    source = HubSource(parse_uri("hf://o/m"), Credentials({"HF_TOKEN": token}), settings)
    with pytest.raises(LarderError) as caught:
        source.resolve()
    source.close()
    return caught.value


@pytest.mark.parametrize(
    "tree",
    [
        b"<html>", b"[" * 100_000, b'["\xff"]', None, 5, "text", ["a"], [None], [{}],
        [FILE | {"size": "2"}], [FILE | {"size": -1}], [FILE | {"size": 1.5}], [FILE | {"size": None}],
        [FILE | {"size": 2**63}], [FILE | {"path": 5}], [FILE | {"path": None}], [FILE | {"oid": 5}],
        [FILE | {"oid": "../x"}], [FILE | {"lfs": [1]}], [FILE | {"lfs": {}}], [FILE | {"lfs": LFS | {"oid": "x"}}],
        [FILE | {"lfs": LFS | {"size": -2}}],
    ],
)  # fmt: skip
def test_a_listing_that_is_invalid_is_reported(serve: Serve, tree: object) -> None:
    error = failure_of(serve(answers(tree)))
    assert isinstance(error, Unreachable)
    assert "sent a response that is not valid for a hub" in str(error)


@pytest.mark.parametrize(
    "info", [[], 5, {"sha": "a" * 200}, {"id": "o/m"}, {"id": "o/m", "sha": ".."}, b'{"a":' * 9999]
)
def test_a_model_that_is_invalid_is_reported(serve: Serve, info: object) -> None:
    assert isinstance(failure_of(serve(answers([FILE], info))), Unreachable)


def test_a_model_without_files_is_invalid(serve: Serve) -> None:
    assert isinstance(failure_of(serve(answers([]))), SourceNotFound)


def test_paths_that_would_fill_the_memory_are_refused(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shared.sources.listing_limits.MAX_CHARACTERS", 100)
    tree = [FILE | {"path": f"{n}/{'a' * 30}"} for n in range(4)]
    assert isinstance(failure_of(serve(answers(tree))), TooManyFiles)


def test_a_listing_that_repeats_a_page_is_abandoned(serve: Serve) -> None:
    server = serve(lambda asked: answers([], Link=f'<{server.url}{asked.target}>; rel="next"')(asked))
    assert "repeats itself" in str(failure_of(server))
    assert len(server.asked) == 2


@pytest.mark.parametrize("link", ["http://[", "http://127.0.0.1:1/x", "file:///etc/passwd"])
def test_a_next_page_on_another_host_is_not_requested(serve: Serve, link: str) -> None:
    assert isinstance(failure_of(serve(answers([], Link=f'<{link}>; rel="next"'))), AddressRefused | Unreachable)


def test_an_endless_redirect_is_abandoned(serve: Serve) -> None:
    server = serve(lambda asked: reply(302, Location=f"{asked.target}x"))
    assert isinstance(failure_of(server), Unreachable)
    assert len(server.asked) < 30


def test_a_silent_hub_is_abandoned_after_the_read_timeout(serve: Serve) -> None:
    error = failure_of(serve(lambda _: reply(200, b"{", Content_Length="1000")), read_timeout_s=0.3)
    assert isinstance(error, Unreachable)
    assert "timed out" in str(error)


def test_a_hub_with_an_untrusted_certificate_is_reported_with_a_remedy() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    with scripted(lambda _: b"", context) as hub:
        error = failure_of(hub)
    assert isinstance(error, Unreachable)
    assert "certificate is not trusted" in str(error)
    assert "SSL_CERT_FILE" in str(error)


@pytest.mark.parametrize("token", ["hf_secret\r\nX: y", "hf_secret\u2713", "hf_se cret", "hf_secret\x01"])
def test_a_token_that_is_invalid_is_refused_and_not_shown(serve: Serve, token: str) -> None:
    server = serve(answers([FILE]))
    settings = SourceSettings(hf_endpoint=server.url)
    with pytest.raises(AuthDenied) as caught:
        HubSource(parse_uri("hf://o/m"), Credentials({"HF_TOKEN": token}), settings)
    assert "secret" not in str(caught.value)


def test_blanks_around_a_token_are_not_sent(serve: Serve) -> None:
    server = serve(answers([]))
    failure_of(server, " hf_good\n")
    assert {asked.headers["authorization"] for asked in server.asked} == {"Bearer hf_good"}


def test_cookies_of_a_hub_are_not_sent_with_later_requests(serve: Serve) -> None:
    """A session that a hub opens for one model's token would let other models read what that token may read."""

    def answer(asked: ScriptedRequest) -> bytes:
        return answers([FILE])(asked).replace(b"\r\n", b"\r\nSet-Cookie: session=of-hf_good; Path=/\r\n", 1)

    server = serve(answer)
    for token in ("hf_good", ""):
        HubSource(
            parse_uri("hf://o/m"), Credentials({"HF_TOKEN": token}), SourceSettings(hf_endpoint=server.url)
        ).resolve()
    assert len(server.asked) == 4
    assert not any("cookie" in asked.headers for asked in server.asked)


def test_warnings_of_a_hub_are_not_written_between_our_lines(serve: Serve, capfd: pytest.CaptureFixture[str]) -> None:
    failure_of(serve(answers([], X_HF_Warning="topic; buy now")))
    assert capfd.readouterr() == ("", "")
