from collections.abc import Callable

import pytest

from rig.scripted_http import Answer, ScriptedRequest, ScriptedServer, reply
from shared.errors import AuthDenied, LarderError, RateLimited, RevisionNotFound, SourceNotFound, TooManyFiles
from shared.manifest import File
from shared.sources.credential_hints import HUB
from shared.sources.failures import RequestSubject
from shared.sources.host_grants import HostGrant
from shared.sources.hub.source import HubSource, decide_hub_failure
from shared.sources.port import Credentials
from shared.sources.settings import SourceSettings
from shared.uri.model_uri import parse_uri

ANONYMOUSLY, WITH_TOKEN, WITHHELD = (
    HostGrant("hub"),
    HostGrant("hub", {"HF_TOKEN": "t"}),
    HostGrant("hub", withheld=True),
)


@pytest.mark.parametrize(
    ("status", "code", "grant", "error", "phrase"),
    [
        (401, "RepoNotFound", ANONYMOUSLY, AuthDenied, "private or does not exist"),
        (401, "RepoNotFound", ANONYMOUSLY, AuthDenied, "correct the URI, or name a Secret with an HF_TOKEN"),
        (401, "RepoNotFound", HostGrant("hub", ambient=True), AuthDenied, "set HF_TOKEN to a token that may read it"),
        (404, "RepoNotFound", ANONYMOUSLY, SourceNotFound, "hides it because it is private: correct the URI"),
        (404, "RepoNotFound", WITH_TOKEN, SourceNotFound, "or hides it"),
        (401, "RepoNotFound", WITH_TOKEN, AuthDenied, "refuses these credentials"),
        (401, "RepoNotFound", WITHHELD, AuthDenied, "add hub to the Secret's annotation"),
        (401, "", WITH_TOKEN, AuthDenied, "refuses these credentials"),
        (401, "GatedRepo", ANONYMOUSLY, AuthDenied, "accept its terms"),
        (403, "GatedRepo", WITH_TOKEN, AuthDenied, "accept its terms"),
        (404, "RevisionNotFound", WITH_TOKEN, RevisionNotFound, "no such revision"),
        (404, "EntryNotFound", WITH_TOKEN, SourceNotFound, "no longer has"),
        (429, "", WITH_TOKEN, RateLimited, "asks to wait"),
    ],
)
def test_error_responses_of_a_hub_are_reported_with_a_remedy(
    status: int, code: str, grant: HostGrant, error: type[LarderError], phrase: str
) -> None:
    failure = decide_hub_failure(status, {"X-Error-Code": code}, RequestSubject("hf://o/m@main", HUB, grant), 0.0)
    assert type(failure) is error
    assert phrase in str(failure)


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("a b/é#?%2F.bin", "/o/m/resolve/refs%2Fpr%2F1/a%20b/%C3%A9%23%3F%252F.bin"),
        ("config.json", "/o/m/resolve/refs%2Fpr%2F1/config.json"),
    ],
)
def test_paths_and_revisions_are_quoted(serve: Callable[[Answer], ScriptedServer], path: str, target: str) -> None:
    server = serve(lambda _: reply(200, b"x"))
    source = HubSource(
        parse_uri("hf://o/m@refs/pr/1"), Credentials({"token": "t"}), SourceSettings(hf_endpoint=server.url)
    )
    source.open(File(path, 1)).close()
    source.close()
    assert (server.asked[0].target, server.asked[0].headers["authorization"]) == (target, "Bearer t")


def test_a_token_for_other_hosts_is_not_sent_to_the_public_hub() -> None:
    source = HubSource(parse_uri("hf://o/m"), Credentials({"HF_TOKEN": "t"}, ("hub.test",)), SourceSettings())
    assert source._token == ""
    source = HubSource(parse_uri("hf://o/m"), Credentials({"HF_TOKEN": "t"}), SourceSettings())
    assert source._token == "t"


def test_an_endless_tree_is_abandoned(serve: Callable[[Answer], ScriptedServer]) -> None:
    page = b",".join(b'{"type":"file","path":"%05d","size":1,"oid":"%040d"}' % (i, i) for i in range(40_000))

    def answer(asked: ScriptedRequest) -> bytes:
        if "/tree/" not in asked.target:
            return reply(200, b'{"id":"o/m","sha":"c0ffee","siblings":[]}', Content_Type="application/json")
        more = f'<{server.url}/api/models/o/m/tree/c0ffee?recursive=true&cursor={len(server.asked)}>; rel="next"'
        return reply(200, b"[" + page + b"]", Content_Type="application/json", Link=more)

    server = serve(answer)
    source = HubSource(parse_uri("hf://o/m"), Credentials(), SourceSettings(hf_endpoint=server.url))
    with pytest.raises(TooManyFiles, match="hf://o/m@c0ffee has more than 100000"):
        source.resolve()
    source.close()
    assert len(server.asked) == 4
