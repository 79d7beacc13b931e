import pytest

from shared.errors import AuthDenied, LarderError, RateLimited, SourceChanged, SourceNotFound, Unreachable
from shared.http.origins import origin_of
from shared.sources.credential_hints import AZURE, GOOGLE, HTTPS, HUB, OCI_OBJECTS, REGISTRY, S3, CredentialHint
from shared.sources.failures import RequestSubject, failure_of
from shared.sources.host_grants import HostGrant

NOW = 1_800_000_000.0
CDN = origin_of("https://cdn.test")
SUBJECT = RequestSubject("https://h.test/f", HTTPS, HostGrant("h.test"))


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (401, AuthDenied),
        (403, AuthDenied),
        (407, AuthDenied),
        (404, SourceNotFound),
        (410, SourceChanged),
        (412, SourceChanged),
        (416, SourceChanged),
        (429, RateLimited),
        (500, Unreachable),
        (502, Unreachable),
        (503, Unreachable),
        (418, Unreachable),
        (304, Unreachable),
    ],
)
def test_each_http_status_maps_to_its_error_and_names_the_host(status: int, error: type[LarderError]) -> None:
    failure = failure_of(status, {}, SUBJECT, NOW)
    assert type(failure) is error
    assert "h.test" in str(failure)


@pytest.mark.parametrize(
    ("headers", "after_s"),
    [
        ({"Retry-After": "7"}, 7),
        ({"Retry-After": "0.5"}, 0.5),
        ({"Retry-After": "999999"}, 3600),
        ({"Retry-After": "Fri, 15 Jan 2027 08:00:09 GMT"}, 9),
        ({"Retry-After": "Fri, 15 Jan 2027 07:00:00 -0000"}, 0),
        ({"Retry-After": "Fri, 15 Jan 2027 08:00:09 GMT", "Date": "Fri, 15 Jan 2027 07:50:00 GMT"}, 609),  # its clock
        ({"Retry-After": "Fri, 15 Jan 2027 08:00:09 GMT", "Date": "today"}, 9),
        ({"Retry-After": "soon"}, 30),
        ({"RateLimit": '"api";r=0;t=55'}, 55),
        ({}, 30),
    ],
)
def test_the_wait_after_a_rate_limit_follows_from_the_headers(headers: dict[str, str], after_s: float) -> None:
    failure = failure_of(429, headers, SUBJECT, NOW)
    assert isinstance(failure, RateLimited)
    assert failure.after_s == after_s


def test_a_503_is_a_rate_limit_only_with_a_valid_retry_after() -> None:
    assert isinstance(failure_of(503, {"Retry-After": "3"}, SUBJECT, NOW), RateLimited)
    assert isinstance(failure_of(503, {"Retry-After": "soon"}, SUBJECT, NOW), Unreachable)


@pytest.mark.parametrize(
    ("grant", "phrase"),
    [
        (HostGrant("h.test"), "name a Secret with the key token"),
        (HostGrant("h.test", {"token": "t"}), "refuses these credentials"),
        (HostGrant("h.test", withheld=True), "add h.test to the Secret's annotation larder.dev/hosts"),
        (HostGrant("h.test", withheld=True, place="h.test:8443"), "add h.test:8443 to the Secret's annotation larder"),
    ],
)
def test_a_denied_request_suggests_how_to_change_the_secret(grant: HostGrant, phrase: str) -> None:
    assert phrase in str(failure_of(403, {}, RequestSubject("x", HTTPS, grant), NOW))


@pytest.mark.parametrize(
    ("keys", "place"),
    [
        (HUB, "HF_TOKEN"),
        (S3, "~/.aws/credentials"),
        (GOOGLE, "set GOOGLE_APPLICATION_CREDENTIALS to a file"),
        (AZURE, "AZURE_STORAGE_ACCOUNT"),
        (REGISTRY, "docker's config.json"),
        (OCI_OBJECTS, "OCI_CLI_KEY_CONTENT"),
        (HTTPS, "commands send no credentials"),
    ],
)
@pytest.mark.parametrize(
    ("grant", "phrase"),
    [
        (HostGrant("h.test", ambient=True), "h.test requires credentials for x (status 403); "),
        (HostGrant("h.test", {"token": "t"}, ambient=True), "h.test refuses these credentials for x (status 403); "),
        (HostGrant("h.test", withheld=True, ambient=True), "yours were not sent because they are for other hosts; "),
        (
            HostGrant("h.test", {"token": "t"}, ambient=True).as_seen_by(origin_of("https://cdn.test")),
            "cdn.test requires credentials for x",
        ),
    ],
)
def test_users_of_the_command_line_are_pointed_to_variables_and_files(
    keys: CredentialHint, place: str, grant: HostGrant, phrase: str
) -> None:
    message = str(failure_of(403, {}, RequestSubject("x", keys, grant), NOW))
    assert phrase in message
    assert place in message
    assert "Secret" not in message


@pytest.mark.parametrize("text", ["-5", "1e400", "\xb2", "Sun, 06 Nov 1994 08:49:37 +99999999999999999"])
def test_an_invalid_retry_time_is_replaced_by_the_default(text: str) -> None:
    error = failure_of(429, {"Retry-After": text}, RequestSubject("x", HTTPS, HostGrant("host")), 0.0)
    assert isinstance(error, RateLimited)
    assert error.after_s == 30


@pytest.mark.parametrize(
    ("status", "asked", "phrase"),
    [
        (429, "30", "host asks to wait 30 s (until 00:16:40Z) before x"),
        (503, "30", "host is unavailable for 30 s (until 00:16:40Z)"),
        (429, "7200", "host asks to wait at least 3600 s (until 01:16:10Z) before x"),
    ],
)
def test_the_message_states_when_the_wait_ends(status: int, asked: str, phrase: str) -> None:
    assert (
        str(failure_of(status, {"Retry-After": asked}, RequestSubject("x", HTTPS, HostGrant("host")), 970.0)) == phrase
    )
