"""Metrics of both programs while a model passes through the system."""

import ssl
import time
from datetime import datetime

import httpx
import pytest
from cryptography import x509

from controller.admission.server import VALIDATE_PATH, path_with
from rig.errors import CallRefused
from rig.larder.programs import ADMISSION_KEY, ControllerProgram
from rig.larder.site import Site
from rig.pods import base_model_pod
from rig.ports import LOOPBACK
from tests.readers.metrics import scrape

LEADING = "larder_leader"
OF_THE_LEADER = (
    "larder_workqueue_depth",
    "larder_grants_in_use",
    'larder_nodes{state="AgentReady"}',
)


def agent(site: Site, node: str) -> dict[str, float]:
    return scrape(f"http://{LOOPBACK}:{site.cluster.agents[node].port}")


def controller(program: ControllerProgram) -> dict[str, float]:
    return scrape(f"http://{LOOPBACK}:{program.health_port}")


def reviews(site: Site, path: str, outcome: str) -> float:
    """Return the number of reviews with this outcome at the replica that serves the webhooks."""
    name = f'larder_admission_duration_seconds_count{{outcome="{outcome}",path="{path}"}}'
    return controller(site.cluster.controllers[0])[name]


def credentials_given(site: Site) -> float:
    name = 'larder_http_requests_total{route="/v1/credentials",status="200"}'
    return sum(controller(c).get(name, 0) for c in site.cluster.controllers)


def leader(site: Site) -> dict[str, float]:
    """Return the metrics of the leader."""
    found = [shown for c in site.cluster.controllers if (shown := controller(c))[LEADING]]
    return found[0] if found else {}


def test_a_download_is_counted_by_both_programs(site: Site) -> None:
    """Only lower bounds, because a model of an earlier test may still arrive.

    The tests of each program check the exact numbers.
    """
    before, served, checked = agent(site, "a"), credentials_given(site), reviews(site, "/validate", "allowed")
    cache = site.cache(site.push())
    size_bytes = site.wait_ready("ClusterModelCache", cache)["size"]
    after = agent(site, "a")

    def moved(name: str) -> float:
        return after[name] - before.get(name, 0)

    assert moved('larder_downloaded_bytes_total{source="hf"}') >= size_bytes > 0
    assert moved('larder_verified_bytes_total{source="hf"}') >= size_bytes
    assert moved('larder_downloads_ended_total{kind="download",reason="",result="complete"}') >= 1
    assert after['larder_models{phase="Ready"}'] >= 1
    assert credentials_given(site) - served >= 2  # nodes a and b
    assert reviews(site, "/validate", "allowed") - checked >= 1

    def reported() -> bool:
        states = leader(site)
        ready = states.get('larder_declared_models{kind="ClusterModelCache",state="Ready"}', 0)
        return ready >= 1 and states.get('larder_nodes{state="AgentReady"}') == len(site.cluster.agents)

    site.until(reported, "the leader to count the model and its nodes")


def test_admission_is_counted_by_outcome(site: Site) -> None:
    model = site.base_model(site.push(), nodeSelector={"kubernetes.io/hostname": "a"})
    site.wait_ready("ClusterBaseModel", model)
    allowed, denied = (reviews(site, "/mutate-pods", outcome) for outcome in ("allowed", "denied"))
    path = "/api/v1/namespaces/default/pods?dryRun=All"
    site.cluster.api.create(path, base_model_pod("good", model))
    with pytest.raises(CallRefused, match="no BaseModel"):
        site.cluster.api.create(path, base_model_pod("bad", "no-such-model"))
    assert reviews(site, "/mutate-pods", "allowed") - allowed >= 1
    assert reviews(site, "/mutate-pods", "denied") - denied >= 1


def test_an_invalid_review_counts_as_failed(site: Site) -> None:
    failed, replica = reviews(site, "/validate", "failed"), site.cluster.controllers[0]
    context = ssl.create_default_context(cafile=replica.ca)
    url = f"{replica.url}{path_with(ADMISSION_KEY, VALIDATE_PATH)}"
    assert httpx.post(url, content=b"{}", verify=context, trust_env=False, timeout=60).status_code == 400
    assert reviews(site, "/validate", "failed") - failed >= 1


def test_a_model_that_is_not_ready_is_exported_by_name_until_it_is_deleted(site: Site) -> None:
    cache = site.cache("hf://org/there-is-no-such-repository")
    name = f'larder_model_not_ready_since_timestamp_seconds{{kind="ClusterModelCache",model="{cache}"}}'
    site.wait_reason("ClusterModelCache", cache, "AuthDenied")
    since: list[float] = []

    def is_named() -> bool:
        since[:] = [reported for reported in [leader(site).get(name)] if reported is not None]
        return bool(since)

    site.until(is_named, "the model to be named")
    created = site.get("ClusterModelCache", cache)["metadata"]["creationTimestamp"]
    assert datetime.fromisoformat(created).timestamp() <= since[0] <= time.time()
    site.delete("ClusterModelCache", cache)
    site.until(lambda: name not in (leader(site) or {name}), "the model to be forgotten")


def test_only_the_leader_exports_the_metrics_of_a_leader(site: Site) -> None:
    """Except for moments in which the leader changes."""

    def reported() -> bool:
        every = [controller(c) for c in site.cluster.controllers]
        return sorted(shown[LEADING] for shown in every) == [0, 1] and all(map(_knows_its_place, every))

    site.until(reported, "the leader to show what it knows, and the other nothing of it")


def _knows_its_place(shown: dict[str, float]) -> bool:
    of_models = any(name.startswith("larder_declared_models") for name in shown)
    return [name in shown for name in OF_THE_LEADER] + [of_models] == [bool(shown[LEADING])] * (len(OF_THE_LEADER) + 1)


def test_the_expiry_of_the_certificate_is_exported(site: Site) -> None:
    replica = site.cluster.controllers[0]
    text = ssl.get_server_certificate((LOOPBACK, replica.port))
    expected = x509.load_pem_x509_certificate(text.encode()).not_valid_after_utc.timestamp()
    name = "larder_certificate_expiration_timestamp_seconds"
    site.until(lambda: controller(replica)[name] == expected, "the end of the certificate that is in use")
