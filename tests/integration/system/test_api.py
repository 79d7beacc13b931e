"""The controller's API gives an agent what its own node's ModelNode lists, and nothing else to anyone."""

import ssl
from collections.abc import Iterator

import httpx
import pytest

from rig import agents
from rig.errors import CallRefused
from rig.larder.cluster_driver import TIMEOUT_S
from rig.larder.programs import AGENT, AUDIENCE, NAMESPACE
from rig.larder.site import Site


@pytest.fixture(scope="module")
def cache(site: Site) -> str:
    """A model on node a alone, from a private bucket."""
    bucket = site.name("private")
    site.s3.put(bucket, "m/weights.bin", b"w" * 1000)
    labels = {"api": site.name("x")}
    site.label("a", labels)
    name = site.cache(f"s3://{bucket}/m", group=site.group(labels), credentialsSecret="s3-reader")
    site.wait_ready("ClusterModelCache", name)
    return name


@pytest.fixture
def client(site: Site) -> Iterator[httpx.Client]:
    """A client of the first replica, without a token."""
    controller = site.cluster.controllers[0]
    context = ssl.create_default_context(cafile=controller.ca)
    with httpx.Client(base_url=controller.url, verify=context, trust_env=False, timeout=TIMEOUT_S) as client:
        yield client


def token_of(site: Site, node: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {site.cluster.agents[node].token_file.read_text()}"}


def wanted(site: Site, model: str) -> dict[str, str]:
    (entry,) = site.entries("a", model)
    return {"id": entry["id"], "revision": entry["revision"]}


def test_an_agent_gets_the_manifest_and_credentials_of_its_own_node(
    site: Site, client: httpx.Client, cache: str
) -> None:
    (entry,) = site.entries("a", cache)
    manifest = client.get(f"/v1/manifests/{entry['manifest']}", headers=token_of(site, "a"))
    assert [f["path"] for f in manifest.json()["files"]] == ["weights.bin"]
    credentials = client.post("/v1/credentials", json=wanted(site, cache), headers=token_of(site, "a"))
    (grant,) = credentials.json()["grants"]
    assert grant["values"]["AWS_SECRET_ACCESS_KEY"] == site.s3.secret_key
    assert grant["hosts"] == [f"127.0.0.1:{site.s3.port}"]
    assert credentials.headers["cache-control"] == "no-store"


def test_an_agent_gets_no_manifest_or_credentials_of_another_node(site: Site, client: httpx.Client, cache: str) -> None:
    (entry,) = site.entries("a", cache)
    for answer in (
        client.get(f"/v1/manifests/{entry['manifest']}", headers=token_of(site, "b")),
        client.post("/v1/credentials", json=wanted(site, cache), headers=token_of(site, "b")),
    ):
        assert answer.status_code == 403
        assert answer.json()["reason"] == "NotGranted"
        assert site.s3.secret_key not in answer.text


def test_tokens_that_do_not_belong_to_an_agent_are_refused(site: Site, client: httpx.Client, cache: str) -> None:
    api, plane = site.api, site.cluster.plane
    pod = agents.create_agent_pod(api, "a", probe_port=1, service_account=AGENT, namespace=NAMESPACE)
    accounts = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
    unbound = {"spec": {"audiences": [AUDIENCE], "expirationSeconds": 600}}
    agents.ensure_service_account(api, "stranger", NAMESPACE)
    stranger = agents.create_agent_pod(api, "a", probe_port=1, service_account="stranger", namespace=NAMESPACE)
    tokens = {
        "for the API server": agents.token(api, pod),
        "for somebody else": agents.token(api, pod, ["vault"]),
        "not bound to a pod": api.create(f"{accounts}/{AGENT}/token", unbound)["status"]["token"],
        "of the controller": api.create(f"{accounts}/larder-controller/token", unbound)["status"]["token"],
        "of a stranger on the node": agents.token(api, stranger, [AUDIENCE]),
        "garbage": "garbage",
        "empty": "",
    }
    for whose, token in tokens.items():
        headers = {"Authorization": f"Bearer {token}".strip()}
        answer = client.post("/v1/credentials", json=wanted(site, cache), headers=headers)
        assert (whose, answer.status_code) == (whose, 401)
        assert answer.json()["reason"] == "Unauthenticated"
        assert not token or token == "garbage" or token not in answer.text
    assert client.post("/v1/credentials", json=wanted(site, cache)).status_code == 401
    for unwanted in (pod, stranger):
        agents.delete_agent_pod(api, unwanted)
    assert plane.api.answers("/readyz")


_WRONG = [b"", b"{", b"[]", b'{"id": 5}', b'{"entries": [{"id": "x"}]}', b"\xff" * 50]


@pytest.mark.parametrize("body", _WRONG, ids=repr)
@pytest.mark.parametrize("path", ["/v1/credentials", "/v1/progress"])
def test_an_invalid_body_is_refused(site: Site, client: httpx.Client, path: str, body: bytes) -> None:
    answer = client.post(path, content=body, headers=token_of(site, "a"))
    assert answer.status_code == 400
    assert answer.json()["reason"] == "BadRequest"


def test_a_body_that_is_too_large_is_refused(site: Site, client: httpx.Client) -> None:
    answer = client.post("/v1/progress", content=b" " * (2 * 2**20), headers=token_of(site, "a"))
    assert answer.status_code in (400, 413)


def test_progress_reaches_the_leader_through_any_replica(site: Site, cache: str) -> None:
    report = {"entries": [wanted(site, cache) | {"done": 5, "total": 10}]}
    for controller in site.cluster.controllers:
        context = ssl.create_default_context(cafile=controller.ca)
        with httpx.Client(base_url=controller.url, verify=context, trust_env=False, timeout=TIMEOUT_S) as client:

            def is_taken(client: httpx.Client = client) -> bool:
                code = client.post("/v1/progress", json=report, headers=token_of(site, "a")).status_code
                assert code in (204, 429, 503), "503 means that there is no leader, or that the leader has just changed"
                return code == 204

            site.until(is_taken, f"{controller.name} to take the report")


def test_secrets_do_not_appear_in_objects_or_logs(site: Site, cache: str) -> None:
    site.until(lambda: site.phases("a", cache) == ["Ready"], "the model to be there")
    seen = [str(site.get("ModelNode", "a")), str(site.get("ClusterModelCache", cache))]
    seen += [c.log.read_text() for c in site.cluster.controllers]
    seen += [a.log.read_text() for a in site.cluster.agents.values()]
    assert all(site.s3.secret_key not in text for text in seen)


def test_a_transition_is_reported_as_an_event(site: Site, cache: str) -> None:
    def reported() -> list[tuple[str, str]]:
        return [(e.get("reason", ""), e["involvedObject"]["kind"]) for e in site.events(cache)]

    site.until(lambda: ("Stocked", "ClusterModelCache") in reported(), "the Event, which is written after the status")
    assert {kind for _, kind in reported()} == {"ClusterModelCache"}


def test_the_token_of_an_agent_has_rights_only_on_its_own_node(site: Site) -> None:
    """The roles and policies of the chart, tried with a stolen token."""
    pod = agents.create_agent_pod(site.api, "a", probe_port=1, service_account=AGENT, namespace=NAMESPACE)
    api = site.cluster.plane.api_with_token(agents.token(site.api, pod))
    label = {"metadata": {"labels": {"model-cache-ready-probe": "true"}}}
    status = {"status": {"agentVersion": "stolen"}}
    nodes, modelnodes = "/api/v1/nodes", "/apis/larder.dev/v1alpha1/modelnodes"

    def code(method: str, path: str, body: object = None) -> int:
        try:
            api.call(method, path, body, "application/merge-patch+json" if method == "PATCH" else "application/json")
        except CallRefused as refusal:
            return refusal.status
        return 200

    assert code("PATCH", f"{nodes}/a", label) == 200
    assert code("PATCH", f"{nodes}/a", {"metadata": {"labels": {"model-cache-ready-probe": None}}}) == 200
    assert code("GET", f"{modelnodes}/b") == 200
    denied = [
        ("PATCH", f"{nodes}/b", label),
        ("PATCH", f"{nodes}/a", {"metadata": {"labels": {"gpu": "no"}}}),
        ("PATCH", f"{nodes}/a", {"metadata": {"annotations": {"other": "x"}}}),
        ("PATCH", f"{nodes}/a", {"spec": {"unschedulable": True}}),
        ("DELETE", f"{nodes}/a", None),
        ("PATCH", f"{modelnodes}/b/status", status),
        ("PATCH", f"{modelnodes}/a", {"spec": {"entries": []}}),
        ("DELETE", f"{modelnodes}/a", None),
        ("GET", f"/api/v1/namespaces/{NAMESPACE}/secrets", None),
        ("GET", f"/api/v1/namespaces/{NAMESPACE}/configmaps", None),
        ("GET", "/api/v1/pods", None),
        ("GET", "/apis/ome.io/v1beta1/clusterbasemodels", None),
        ("GET", "/apis/serving.kserve.io/v1alpha1/clustermodelcaches", None),
        ("GET", nodes, None),
    ]
    for method, path, body in denied:
        assert (method, path, code(method, path, body)) == (method, path, 403)
    api.close()
    agents.delete_agent_pod(site.api, pod)
