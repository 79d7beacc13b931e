import json
from collections.abc import Callable

import pytest

from rig.google_account import GoogleAccount
from rig.scripted_http import Answer, ScriptedRequest, ScriptedServer, reply
from shared.errors import AuthDenied, LarderError, RateLimited, Unreachable
from shared.manifest import File
from shared.sources.gcs.service_account import check_token_uri, parse_account
from shared.sources.gcs.source import GcsSource
from shared.sources.port import Credentials
from shared.sources.settings import SourceSettings
from shared.uri.model_uri import parse_uri

Serve = Callable[[Answer], ScriptedServer]
GOOD = json.loads(GoogleAccount("https://oauth2.googleapis.com/token").key_file())


def source_of(endpoint: str, key_file: str, clock: Callable[[], float] = lambda: 1.0) -> GcsSource:
    settings = SourceSettings(gcs_endpoint=endpoint)
    credentials = Credentials({"GOOGLE_APPLICATION_CREDENTIALS": key_file})
    return GcsSource(parse_uri("gs://bucket/m"), credentials, settings, lambda: 1e9, clock)


@pytest.mark.parametrize(
    ("url", "hosts", "endpoint"),
    [
        ("https://oauth2.googleapis.com/token", (), ""),
        ("https://tokens.example.org/t", ("tokens.example.org",), ""),
        ("http://127.0.0.1:4443/token", (), "http://127.0.0.1:4443"),
    ],
)
def test_token_uris_on_trusted_hosts_are_accepted(url: str, hosts: tuple[str, ...], endpoint: str) -> None:
    check_token_uri(url, Credentials(hosts=hosts), endpoint)


@pytest.mark.parametrize(
    ("url", "hosts", "endpoint"),
    [
        ("https://evil.test/token", (), ""),
        ("https://oauth2.googleapis.com.evil.test/token", (), ""),
        ("https://evil.test/oauth2.googleapis.com", ("other.test",), ""),
        ("http://oauth2.googleapis.com/token", (), ""),
        ("https://u:p@oauth2.googleapis.com/token", (), ""),
        ("http://169.254.169.254/token", (), ""),
        ("http://127.0.0.1:1/token", (), "http://127.0.0.1:4443"),
        ("file:///etc/passwd", ("",), ""),
        ("https://[::1", (), ""),
        ("", (), ""),
    ],
)
def test_token_uris_on_untrusted_hosts_are_refused(url: str, hosts: tuple[str, ...], endpoint: str) -> None:
    with pytest.raises(AuthDenied):
        check_token_uri(url, Credentials(hosts=hosts), endpoint)


@pytest.mark.parametrize(
    "text",
    [
        "", "/var/keys/key.json", "[]", "null", "1", "[" * 100_000, "{}",
        json.dumps(GOOD | {"type": "authorized_user"}),
        json.dumps(GOOD | {"type": "external_account"}),
        json.dumps(GOOD | {"client_email": 5}),
        json.dumps(GOOD | {"private_key": ""}),
        json.dumps(GOOD | {"private_key": "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----"}),
        json.dumps(GOOD | {"private_key": {"a": 1}}),
        json.dumps(GOOD | {"token_uri": 5}),
    ],
)  # fmt: skip
def test_a_malformed_key_file_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(AuthDenied, match="GOOGLE_APPLICATION_CREDENTIALS") as refused:
        parse_account(text)
    assert "AAAA" not in str(refused.value)


def test_a_token_is_requested_once_and_again_before_it_ends(serve: Serve) -> None:
    clock = [1.0]
    issued: list[str] = []

    def answer(asked: ScriptedRequest) -> bytes:
        if asked.method == "POST":
            issued.append(f"t{len(issued)}")
            return reply(200, json.dumps({"access_token": issued[-1], "expires_in": 3600}).encode())
        assert asked.headers["authorization"] == f"Bearer {issued[-1]}"
        return reply(200, b"x")

    server = serve(answer)
    source = source_of(server.url, GoogleAccount(f"{server.url}/token").key_file(), lambda: clock[0])
    for at, tokens in ((1.0, 1), (3_000.0, 1), (3_590.0, 2)):
        clock[0] = at
        source.open(File("w", 1)).close()
        assert len(issued) == tokens
    source.close()


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (reply(400, b'{"error": "invalid_grant"}'), AuthDenied),
        (reply(401), AuthDenied),
        (reply(429, Retry_After="7"), RateLimited),
        (reply(500), Unreachable),
        (reply(302, Location="/elsewhere"), Unreachable),
        (reply(200, b"{}"), Unreachable),
        (reply(200, b"[]"), Unreachable),
        (reply(200, b'{"access_token": "a\\r\\nX: y"}'), Unreachable),
        (reply(200, b'{"access_token": 5}'), Unreachable),
        (reply(200, b'{"access_token": "", "token": ""}'), Unreachable),
        (reply(200, b'{"access_token": "t", "expires_in": "soon"}'), Unreachable),
        (reply(200, bytes(100_000)), Unreachable),
    ],
)
def test_failures_of_a_token_service_map_to_errors_that_hide_the_assertion(
    serve: Serve, answer: bytes, error: type[LarderError]
) -> None:
    server = serve(lambda _: answer)
    source = source_of(server.url, GoogleAccount(f"{server.url}/token").key_file())
    with pytest.raises(error) as failed:
        source.resolve()
    assert {asked.target for asked in server.asked} == {"/token"}
    assert "assertion" not in str(failed.value)
    source.close()


def test_a_key_is_not_used_for_a_host_that_the_secret_does_not_name(serve: Serve) -> None:
    server = serve(lambda _: reply(403))
    credentials = Credentials({"GOOGLE_APPLICATION_CREDENTIALS": "not even looked at"}, ("other.test",))
    settings = SourceSettings(allow_addresses=("127.0.0.1",))
    source = GcsSource(parse_uri("gs://bucket/m"), credentials, settings)
    source._endpoint = server.url
    with pytest.raises(AuthDenied, match=r"larder\.dev/hosts"):
        source.resolve()
    assert not any("authorization" in asked.headers for asked in server.asked)
    source.close()
