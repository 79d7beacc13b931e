import httpx
import pytest
from prometheus_client import CollectorRegistry

from agent.devices.metrics import DeviceCollector
from agent.devices.report import DeviceReport
from agent.reconciler.activity import DOWNLOAD, Activity
from agent.reconciler.observation import Downloading
from agent.reconciler.state_cache import Space
from agent.server.app import AgentState, Extension, build_app
from agent.server.metrics import build_registry
from agent.server.process_usage import ProcessUsage
from tests.builders.observations import DIGEST, SOUND, both, entry, observation

WORLD = observation(
    entry("ready"), entry("coming"), held={("ready", "r1"): SOUND}, labels=both("ready"),
    works={("coming", "r1"): Downloading(DIGEST)},
)  # fmt: skip


class Extended:
    """An optional part of the agent that is enabled."""

    collector = DeviceCollector(lambda: DeviceReport(1, ("models",)), {})

    def health_note(self) -> str:
        return "toys are left out"


def client(
    *,
    alive: str = "",
    ready: str = "",
    address: str = "127.0.0.1",
    error: Exception | None = None,
    extension: Extension | None = None,
) -> httpx.AsyncClient:
    activity = Activity()
    if error:
        activity.internal_errors.note("StopWork", error)
    activity.start(("coming", "r1"), "hf://org/coming@main", DOWNLOAD).total = 10
    activity.running["coming", "r1"].count_received(4)
    report = AgentState(
        "n1",
        lambda: WORLD,
        lambda: Space(1, 2, 3, 4),
        activity,
        lambda: alive,
        lambda: ready,
        lambda: 0.0,
        lambda: ProcessUsage(5, 6),
        extension,
    )
    registry: CollectorRegistry = build_registry(report)
    transport = httpx.ASGITransport(build_app(report, registry), client=(address, 1))
    return httpx.AsyncClient(transport=transport, base_url="http://agent")


async def test_failing_health_and_readiness_checks_answer_503_with_the_reason() -> None:
    async with client() as fine, client(alive="silent", ready="not yet") as bad:
        assert (await fine.get("/healthz")).status_code == (await fine.get("/readyz")).status_code == 200
        assert ((await bad.get("/healthz")).status_code, (await bad.get("/healthz")).text) == (503, "silent\n")
        assert ((await bad.get("/readyz")).status_code, (await bad.get("/readyz")).text) == (503, "not yet\n")


async def test_internal_errors_that_the_loop_survived_are_shown_in_health_and_metrics() -> None:
    async with client(error=KeyError(("secret-model", "r1"))) as http:
        health, metrics = await http.get("/healthz"), await http.get("/metrics")
    assert health.status_code == 200
    assert health.text == "ok\ninternal errors since the start: 1, the last: KeyError in StopWork; the log has more\n"
    assert 'larder_internal_errors_total{part="StopWork"} 1.0' in metrics.text


async def test_an_enabled_extension_adds_to_health_and_metrics_without_failing_them() -> None:
    async with client(extension=Extended()) as http:
        health, metrics = await http.get("/healthz"), await http.get("/metrics")
    assert (health.status_code, health.text) == (200, "ok\ntoys are left out\n")
    assert 'larder_device_plugin_advertised{plugin="models"} 1.0' in metrics.text
    async with client() as http:
        assert "larder_device" not in (await http.get("/metrics")).text


async def test_models_are_listed_with_progress_store_and_process_figures() -> None:
    async with client() as http:
        shown = (await http.get("/v1/models")).json()
    ready, coming = shown["models"]
    assert (ready["phase"], ready["verified"]) == ("Ready", "digest")
    assert (coming["phase"], coming["done_bytes"], coming["total_bytes"]) == ("Downloading", 4, 10)
    assert shown["store"] == {"used_bytes": 1, "reserved_bytes": 2, "limit_bytes": 3, "disk_free_bytes": 4}
    assert shown["process"] == {"memory_bytes": 5, "open_files": 6}


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "::ffff:127.0.0.1"])
async def test_models_are_shown_to_clients_on_loopback(address: str) -> None:
    async with client(address=address) as http:
        assert len((await http.get("/v1/models")).json()["models"]) == 2


@pytest.mark.parametrize("address", ["10.0.0.7", "fd00::7", "::ffff:10.0.0.7", ""])
async def test_models_are_not_shown_to_other_clients(address: str) -> None:
    async with client(address=address) as http:
        answer = await http.get("/v1/models", headers={"X-Forwarded-For": "127.0.0.1"})
        assert (answer.status_code, "port-forward" in answer.text) == (403, True)
        assert not any(name in answer.text for name in ("coming", "ready"))
        assert (await http.get("/metrics")).status_code == (await http.get("/healthz")).status_code == 200


async def test_metrics_contain_no_model_names() -> None:
    async with client() as http:
        text = (await http.get("/metrics")).text
    assert 'larder_models{phase="Ready"} 1.0' in text
    assert "coming" not in text
