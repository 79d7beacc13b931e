"""The agents' API: authentication, the data that it gives, and the response to every failure."""

from collections.abc import AsyncIterator, Iterable
from dataclasses import replace

import httpx
import msgspec
import pytest
from fastapi import FastAPI
from structlog.testing import capture_logs

from controller.agentapi.authenticator import AgentIdentity, Authenticator, DeniedError
from controller.agentapi.leader import LeaderClient
from controller.agentapi.request_guard import (
    INVALID_TOKENS,
    INVALID_TOKENS_OF_NETWORK,
    RATES,
    RequestGuard,
    TooManyError,
    network_of,
)
from controller.agentapi.server import AgentApi
from controller.agentapi.service import AgentService
from controller.placement.allowed_sources import AllowedSources
from controller.sources.credentials import Secrets
from controller.sources.manifests import Manifests
from controller.state.cluster_state import ClusterState
from controller.state.keys import ModelKey
from controller.state.live_reader import LiveReader, object_path
from controller.state.progress import ProgressTracker
from shared.api.core import NODES
from shared.api.model_node import PATH, Claim
from shared.api.wire import CredentialsRequest
from shared.ca_reload import CaReloader
from shared.errors import AuthDenied, NotGranted
from shared.json_object import Json
from shared.kube.transport import Kube
from shared.sources.settings import settings_from_environ
from tests.builders.api_server import Objects
from tests.builders.cluster import base_model, cache, entry, fresh_cluster, model_node, node

REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
AGENT = "system:serviceaccount:ns:larder-agent"
KEY = ("m", "r1")
BEARER = {"Authorization": "Bearer aaa.bbb.ccc"}


def review(audience: str = "larder", username: str = AGENT, **extra: str) -> Json:
    fields = {"node-name": "a", "node-uid": "uid-a", "pod-uid": "p", "pod-name": "agent"} | {
        key.replace("_", "-"): value for key, value in extra.items()
    }
    named = {f"authentication.kubernetes.io/{key}": [value] for key, value in fields.items() if value}
    user = {"username": username, "extra": named}
    return {"status": {"authenticated": True, "audiences": [audience], "user": user}}


class Api:
    """A replica's API over a cluster state and an API server, with its own clock."""

    def __init__(self, kube: Kube, objects: Objects) -> None:
        self.now = 0.0
        self.leading = True
        self.objects = objects
        self.cluster: ClusterState = fresh_cluster(lambda: self.now)
        self.progress = ProgressTracker(lambda: self.now, lambda *_: None)
        manifests = Manifests(kube, "ns")
        secrets = Secrets(kube, "ns", settings_from_environ({}))
        self.authenticator = Authenticator(kube, self.cluster, AGENT, "larder", lambda: self.now)
        self.service = AgentService(kube, self.cluster, manifests, secrets, LiveReader(kube))
        leader = LeaderClient(kube, "/lease", CaReloader(None), "", lambda: self.now)
        self.guard = RequestGuard(self.authenticator, lambda: self.now)
        app = FastAPI(openapi_url=None)
        app.include_router(
            AgentApi(
                self.guard,
                self.service,
                self.progress,
                leader,
                lambda: self.leading,
            ).router()
        )
        self.client = httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="https://larder")

    def trust(self, answer: Json) -> None:
        """Answer every review like this."""
        self.objects.posts[REVIEWS] = lambda _: answer

    async def report(self, body: bytes | Json, **headers: str) -> httpx.Response:
        content = body if isinstance(body, bytes) else msgspec.json.encode(body)
        return await self.client.post("/v1/progress", content=content, headers=BEARER | headers)


@pytest.fixture
async def api(kube: Kube, objects: Objects) -> AsyncIterator[Api]:
    api = Api(kube, objects)
    api.cluster.nodes.upsert(node("a"))
    api.cluster.model_nodes.upsert(model_node("a", entry("m", manifest="e" * 64)))
    api.trust(review())
    yield api
    await api.client.aclose()


async def test_an_agent_is_known_by_its_node(api: Api) -> None:
    assert await api.authenticator.agent_of(BEARER["Authorization"]) == AgentIdentity("a", "uid-a")
    assert api.objects.asked == [f"POST {REVIEWS}"]


@pytest.mark.parametrize(
    ("answer", "phrase"),
    [
        ({"status": {"authenticated": False, "error": "expired"}}, "expired"),
        (review(audience="vault"), "audience"),
        (review(username="system:serviceaccount:ns:other"), "not the agents' service account"),
        (review(node_name=""), "not bound"),
        (review(pod_uid=""), "not bound"),
        (review(node_uid="uid-of-an-earlier-node"), "earlier node"),
        (review(node_name="gone"), "no node gone"),
    ],
)
async def test_tokens_that_are_not_of_an_agent_on_its_own_node_are_refused(api: Api, answer: Json, phrase: str) -> None:
    api.objects.objects[f"{NODES}/a"] = {"metadata": {"name": "a", "uid": "uid-a"}}
    api.trust(answer)
    with pytest.raises(DeniedError, match=phrase):
        await api.authenticator.agent_of(BEARER["Authorization"])


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer ", "Basic YTpi", "Bearer " + "x" * 20_000, "Bearer ÿ"])
async def test_a_malformed_token_is_refused_without_a_review(api: Api, header: str) -> None:
    with pytest.raises(DeniedError):
        await api.authenticator.agent_of(header)
    assert api.objects.asked == []


async def test_a_node_missing_from_the_cache_is_read_live(api: Api) -> None:
    api.trust(review(node_name="new", node_uid="uid-new"))
    api.objects.objects[f"{NODES}/new"] = {"metadata": {"name": "new", "uid": "uid-new"}}
    assert (await api.authenticator.agent_of(BEARER["Authorization"])).node == "new"


async def test_a_reviewed_token_is_cached_for_reports_but_only_briefly(api: Api) -> None:
    for _ in range(20):
        assert (await api.report({"entries": []})).status_code == 204
    assert api.objects.asked == [f"POST {REVIEWS}"]
    api.trust({"status": {"authenticated": False}})
    api.now = 31
    assert (await api.report({"entries": []})).status_code == 401


async def test_credentials_are_never_given_on_a_cached_review(api: Api) -> None:
    await api.report({"entries": []})
    api.trust({"status": {"authenticated": False}})
    request = {"id": "m", "revision": "r1"}
    assert (await api.client.post("/v1/credentials", json=request, headers=BEARER)).status_code == 401


async def test_the_cache_of_tokens_is_bounded(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controller.agentapi.authenticator._MAX_RECENT", 3)
    for i in range(10):
        await api.authenticator.agent_of(f"Bearer token.{i}")
    assert len(api.authenticator._recent) <= 3


async def test_progress_is_recorded_only_for_listed_entries(api: Api) -> None:
    entries = [{"id": i, "revision": "r1", "done": 5, "total": 10} for i in ("m", "made-up")]
    assert (await api.report({"entries": entries})).status_code == 204
    assert api.progress.of("a", KEY) == (5, 10)
    assert api.progress.of("a", ("made-up", "r1")) == (0, 0)


async def test_an_endless_body_is_refused(api: Api) -> None:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b" " * 2**16

    answer = await api.client.post("/v1/progress", content=endless(), headers=BEARER)
    assert (answer.status_code, answer.json()["reason"]) == (413, "TooLarge")


async def test_a_failure_of_the_api_server_is_not_treated_as_a_refusal(api: Api) -> None:
    api.objects.down = True
    answer = await api.report({"entries": []})
    assert (answer.status_code, answer.json()["reason"]) == (503, "Unreachable")
    assert "etcd" not in answer.text


@pytest.mark.parametrize("lease", [None, {"metadata": {}}, {"metadata": 5}])
async def test_reports_are_answered_with_503_while_no_leader_is_known(api: Api, lease: Json | None) -> None:
    api.leading = False
    if lease is not None:
        api.objects.objects["/lease"] = lease
    assert (await api.report({"entries": []})).status_code == 503


async def test_a_forwarded_report_is_never_passed_on_again(api: Api) -> None:
    api.leading = False
    assert (await api.report({"entries": []}, **{"Larder-Forwarded": "true"})).status_code == 503
    assert api.objects.asked == [f"POST {REVIEWS}"]


async def test_a_missing_file_list_is_reported_as_a_changed_source(api: Api) -> None:
    answer = await api.client.get(f"/v1/manifests/{'e' * 64}", headers=BEARER)
    assert (answer.status_code, answer.json()["reason"]) == (404, "SourceChanged")


async def test_a_list_that_the_node_does_not_name_is_refused_after_a_live_read(api: Api) -> None:
    answer = await api.client.get(f"/v1/manifests/{'f' * 64}", headers=BEARER)
    assert (answer.status_code, answer.json()["reason"]) == (403, "NotGranted")
    assert f"GET {PATH}/a" in api.objects.asked


ASKED, ME = CredentialsRequest(*KEY), AgentIdentity("a", "uid-a")


async def test_credentials_of_an_anonymous_model_are_empty(api: Api) -> None:
    api.cluster.cluster_model_caches.upsert(cache("m"))
    (grant,) = (await api.service.credentials(ME, ASKED)).grants
    assert (grant.claim_uid, grant.values) == ("uid-m", {})


async def test_an_object_missing_from_the_cache_is_read_live(api: Api) -> None:
    path = object_path(ModelKey("ClusterModelCache", "", "m"))
    spec = {"storageUri": "hf://org/m", "credentialsSecret": "missing"}
    api.objects.objects[path] = {"metadata": {"name": "m", "uid": "uid-m"}, "spec": spec}
    with pytest.raises(AuthDenied, match="Secret missing"):
        await api.service.credentials(ME, ASKED)


@pytest.mark.parametrize("change", [{"uid": "another"}, {"uri": "hf://org/elsewhere"}])
async def test_no_credentials_are_given_if_the_object_has_another_uid_or_uri(api: Api, change: Json) -> None:
    api.cluster.cluster_model_caches.upsert(cache("m", **change))
    with pytest.raises(NotGranted):
        await api.service.credentials(ME, ASKED)


async def test_an_agent_of_an_earlier_node_of_the_name_gets_nothing(api: Api) -> None:
    with pytest.raises(NotGranted):
        await api.service.credentials(AgentIdentity("a", "uid-of-another"), ASKED)


async def test_no_credentials_are_given_for_an_entry_being_removed(api: Api) -> None:
    api.cluster.model_nodes.upsert(model_node("a", entry("m", state="Draining")))
    with pytest.raises(NotGranted):
        await api.service.credentials(ME, ASKED)


WANTED = {"id": "m", "revision": "r1"}


async def ask(api: Api, bearer: str = "aaa.bbb.ccc", path: str = "/v1/credentials") -> httpx.Response:
    return await api.client.post(path, json=WANTED, headers={"Authorization": f"Bearer {bearer}"})


def reviews(api: Api) -> int:
    return api.objects.asked.count(f"POST {REVIEWS}")


async def test_a_node_that_exceeds_its_rate_gets_the_time_to_retry(api: Api) -> None:
    api.cluster.cluster_model_caches.upsert(cache("m"))
    burst = RATES["credentials"].burst
    with capture_logs() as logs:
        answers = [await ask(api) for _ in range(3 * burst)]
    assert [a.status_code for a in answers] == [200] * burst + [429] * 2 * burst
    assert (answers[-1].json()["reason"], answers[-1].headers["retry-after"]) == ("RateLimited", "1")
    assert reviews(api) == burst, "refused requests cost no review"
    limited = [line for line in logs if line["event"] == "rate_limited"]
    assert [(line["what"], line["sender"]) for line in limited] == [("credentials", "a")]
    assert "aaa.bbb.ccc" not in str(logs)
    api.now = 1.0
    assert [(await ask(api)).status_code for _ in range(2)] == [200, 429]


async def test_a_node_cannot_use_up_the_limit_of_another(api: Api) -> None:
    api.cluster.cluster_model_caches.upsert(cache("m"))
    while (await ask(api)).status_code == 200:
        pass
    api.cluster.nodes.upsert(node("b"))
    api.cluster.model_nodes.upsert(model_node("b", entry("m")))
    api.trust(review(node_name="b", node_uid="uid-b"))
    assert (await ask(api, "of.node.b")).status_code == 200


async def test_the_same_node_is_counted_over_all_its_tokens(api: Api) -> None:
    api.cluster.cluster_model_caches.upsert(cache("m"))
    codes = [(await ask(api, f"token.{i}")).status_code for i in range(RATES["credentials"].burst + 5)]
    assert codes == [200] * RATES["credentials"].burst + [429] * 5


async def test_every_route_has_a_limit_of_its_own(api: Api) -> None:
    for _ in range(RATES["progress"].burst):
        assert (await api.report({"entries": []})).status_code == 204
    assert (await api.report({"entries": []})).status_code == 429
    for _ in range(RATES["manifests"].burst):
        assert (await api.client.get(f"/v1/manifests/{'e' * 64}", headers=BEARER)).status_code == 404
    assert (await api.client.get(f"/v1/manifests/{'e' * 64}", headers=BEARER)).status_code == 429


async def test_a_flood_of_bad_tokens_does_not_affect_reviews(api: Api) -> None:
    await api.report({"entries": []})
    api.trust({"status": {"authenticated": False}})
    codes = [(await ask(api, f"bad.{i}", path)).status_code for i in range(100) for path in _PATHS]
    assert codes == [401] * INVALID_TOKENS.burst + [429] * (len(codes) - INVALID_TOKENS.burst)
    assert reviews(api) == 1 + INVALID_TOKENS.burst
    assert (await api.report({"entries": []})).status_code == 204, "a cached token is not affected"
    api.now = 1.0
    assert [(await ask(api, f"bad.{i}")).status_code for i in range(2)] == [401, 429]


_PATHS = ("/v1/credentials", "/v1/progress")


async def test_good_tokens_of_many_nodes_may_come_from_one_address(api: Api) -> None:
    """A replica that does not lead passes on the reports of all its agents."""
    for i in range(3 * INVALID_TOKENS.burst):
        api.cluster.nodes.upsert(node(f"n{i}"))
        api.trust(review(node_name=f"n{i}", node_uid=f"uid-n{i}"))
        assert (await ask(api, f"good.{i}", "/v1/progress")).status_code == 400


async def test_requests_during_an_api_server_outage_do_not_use_up_the_rate_limit(api: Api) -> None:
    api.objects.down = True
    for i in range(2 * INVALID_TOKENS.burst):
        assert (await ask(api, f"token.{i}")).status_code == 503
    api.objects.down = False
    assert (await ask(api, "token.0", "/v1/progress")).status_code == 400


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("", ""),
    ],
)
def test_addresses_are_grouped_by_ipv4_address_or_ipv6_network(address: str, network: str) -> None:
    assert network_of(address) == network


async def refusals(api: Api, addresses: Iterable[str]) -> int:
    """Send an invalid token from each address; return how many were refused without a review."""
    refused = 0
    api.trust({"status": {"authenticated": False}})
    for number, address in enumerate(addresses):
        with pytest.raises((DeniedError, TooManyError)) as caught:
            await api.guard.admit("progress", f"Bearer bad.{number}", address, reviewed=True)
        refused += caught.type is TooManyError
    api.trust(review())
    return refused


async def test_a_pod_cannot_keep_out_the_agent_of_its_node(api: Api) -> None:
    """With IPv6, the pods of a node usually have addresses of one /64."""
    assert await refusals(api, ["2001:db8::66"] * 200) == 200 - INVALID_TOKENS.burst
    agent = await api.guard.admit("manifests", BEARER["Authorization"], "2001:db8::5", reviewed=True)
    assert agent.node == "a"


async def test_a_host_with_a_whole_ipv6_network_is_limited(api: Api) -> None:
    count = 2 * INVALID_TOKENS_OF_NETWORK.burst
    assert await refusals(api, (f"2001:db8::{n:x}" for n in range(count))) == count // 2


async def test_a_body_of_many_brackets_is_not_an_internal_error(api: Api) -> None:
    answer = await api.report(b'{"unknown":' + b"[" * 200_000)
    assert (answer.status_code, answer.json()["reason"]) == (400, "BadRequest")


async def test_a_source_that_is_not_allowed_gets_no_values(api: Api) -> None:
    api.cluster.models.allowed = AllowedSources(("s3://",))
    api.service = replace(api.service, live=LiveReader(api.service.kube, allowed=api.cluster.models.allowed))
    claim = Claim(kind="BaseModel", namespace="team", name="m", uid="uid-m")
    listed = entry("team_m", uri="hf://org/m@main", claims=[claim])
    api.cluster.model_nodes.upsert(model_node("a", listed))
    api.cluster.base_models.upsert(base_model("team", "m"))
    with pytest.raises(NotGranted, match="one that is not allowed"):
        await api.service.credentials(AgentIdentity("a", "uid-a"), CredentialsRequest(id="team_m", revision="r1"))
    api.cluster.models.allowed = AllowedSources(("hf://",))
    api.cluster.base_models.upsert(base_model("team", "m"))
    credentials = await api.service.credentials(
        AgentIdentity("a", "uid-a"), CredentialsRequest(id="team_m", revision="r1")
    )
    assert len(credentials.grants) == 1
