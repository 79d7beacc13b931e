"""Callers that exceed the rate limit of the agents' API are asked to retry later and do not affect others."""

import ssl
import time
from collections import Counter
from collections.abc import Iterator

import httpx
import pytest

from controller.agentapi.request_guard import INVALID_TOKENS, RATES
from rig.larder.cluster_driver import TIMEOUT_S
from rig.larder.site import Site

ELSEWHERE = "127.0.0.9"  # another address than that of the agents


@pytest.fixture
def client(site: Site) -> Iterator[httpx.Client]:
    """A client of the replica that the agents use, from its own address."""
    controller = site.cluster.controllers[0]
    context = ssl.create_default_context(cafile=controller.ca)
    transport = httpx.HTTPTransport(verify=context, local_address=ELSEWHERE)
    with httpx.Client(base_url=controller.url, transport=transport, trust_env=False, timeout=TIMEOUT_S) as client:
        yield client


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def reviews(site: Site) -> float:
    """Return the number of TokenReviews that the API server has answered."""
    lines = site.api._http.get("/metrics").text.splitlines()
    mine = (line for line in lines if line.startswith("apiserver_request_total{") and "tokenreviews" in line)
    return sum(float(line.rpartition(" ")[2]) for line in mine)


def test_a_flood_from_one_node_is_limited_and_its_agent_continues(site: Site, client: httpx.Client) -> None:
    agent = site.cluster.agents["a"]
    wanted = {"id": "none", "revision": "none"}
    token = agent.token_file.read_text()
    burst = RATES["credentials"].burst
    before = reviews(site)
    answers = [client.post("/v1/credentials", json=wanted, headers=bearer(token)) for _ in range(burst * 5)]
    codes = Counter(a.status_code for a in answers)
    assert codes.keys() == {403, 429}
    assert codes[429] >= burst
    most = codes[403] + codes[429] / 2  # agents ask for reviews beside it
    assert reviews(site) - before <= most, "refused requests cost a TokenReview all the same"
    refused = next(a for a in answers if a.status_code == httpx.codes.TOO_MANY_REQUESTS)
    assert (refused.json()["reason"], refused.headers["retry-after"]) == ("RateLimited", "1")
    other = site.cluster.agents["b"].token_file.read_text()
    assert client.post("/v1/credentials", json=wanted, headers=bearer(other)).status_code == httpx.codes.FORBIDDEN

    labels = {"flooded": site.name("x")}
    site.label("a", labels)
    name = site.cache(group=site.group(labels))
    seen, reported = set[str](), len(agent.log.read_text())

    def ready() -> bool:
        if (
            "RateLimited" not in agent.log.read_text()[reported:]
        ):  # a caller with the same rate limit continues until it is asked to wait
            client.post("/v1/credentials", json=wanted, headers=bearer(token))
        seen.update(site.phases("a", name))
        return site.status("ClusterModelCache", name).get("storageStatus") == "Ready"

    site.until(ready, f"{name} to be Ready")
    assert "Failed" not in seen
    log = site.cluster.controllers[0].log.read_text()
    assert "rate_limited" in log
    assert token not in log
    site.delete("ClusterModelCache", name)
    site.label("a", {"flooded": None})


def test_a_flood_of_bad_tokens_does_not_reach_the_api_server(site: Site, client: httpx.Client) -> None:
    before, began = reviews(site), time.monotonic()
    answers = [client.post("/v1/progress", json={"entries": []}, headers=bearer(f"bad.{i}.x")) for i in range(400)]
    codes = Counter(a.status_code for a in answers)
    assert codes.keys() == {401, 429}
    assert codes[401] <= INVALID_TOKENS.burst + 1 + (time.monotonic() - began) * INVALID_TOKENS.per_s
    assert reviews(site) - before <= codes[401] + codes[429] / 2  # agents ask for reviews beside it
    good = bearer(site.cluster.agents["a"].token_file.read_text())
    url, ca = site.cluster.controllers[0].url, site.cluster.controllers[0].ca
    with httpx.Client(
        base_url=url, verify=ssl.create_default_context(cafile=ca), trust_env=False, timeout=TIMEOUT_S
    ) as elsewhere:

        def code() -> int:
            return elsewhere.post("/v1/progress", json={"entries": []}, headers=good).status_code

        assert code() != httpx.codes.TOO_MANY_REQUESTS, "an agent at another address is delayed"
        site.until(lambda: code() == httpx.codes.NO_CONTENT, "the report to reach whoever leads")
