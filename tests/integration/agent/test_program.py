"""Startup and exit of the program, and what it loads."""

from pathlib import Path

import psutil

from tests.integration.agent.node_under_test import Bench

IDLE_BYTES = 90 * 10**6
# Libraries of several megabytes that an agent needs neither for waiting nor for downloads from a hub.
HEAVY = {
    "kubernetes", "yaml", "requests", "requests_oauthlib", "oauthlib", "urllib3", "websocket", "charset_normalizer",
    "httpx", "httpcore", "httpx2", "anyio._backends._asyncio", "pydantic.v1", "boto3", "botocore", "awscrt",
    "huggingface_hub", "cryptography",
}  # fmt: skip


def test_a_second_agent_on_the_same_directory_is_refused(bench: Bench) -> None:
    bench.want()
    bench.start()
    second = bench.start(ready=False)
    bench.wait_for(lambda: second.exit_code is not None, "the end of the second agent")
    assert second.exit_code == 1
    failed = [e for e in bench.events() if e.get("event") == "agent_failed"]
    assert [e["reason"] for e in failed] == ["StoreFailure"]
    assert "in use" in failed[0]["message"]


def test_an_agent_without_a_kubeconfig_exits_with_the_reason_no_cluster(bench: Bench) -> None:
    agent = bench.start("--kubeconfig", str(bench.state / "none"), ready=False)
    bench.wait_for(lambda: agent.exit_code is not None, "the end of the agent")
    assert agent.exit_code == 1
    failed = [e for e in bench.events() if e.get("event") == "agent_failed"]
    assert [e["reason"] for e in failed] == ["NoCluster"]


def test_the_agent_is_alive_but_not_ready_while_its_node_is_missing(bench: Bench) -> None:
    bench.api.delete(f"/api/v1/nodes/{bench.node}")
    bench.start(ready=False)
    bench.wait_for(lambda: bench.answers("/healthz") == 200, "an answer")
    assert bench.answers("/readyz") == 503
    bench.create_node()
    bench.want()
    bench.wait_for(bench.is_ready, "the agent to be ready")


def test_an_agent_in_a_pod_stays_small_and_loads_no_unused_libraries(bench: Bench, service_account: Path) -> None:
    bench.environ["PYTHONPROFILEIMPORTTIME"] = "1"
    bench.in_pod, bench.options = True, (*bench.options, "--service-account", str(service_account))
    model = bench.add_model("m", {"model.safetensors": b"weights" * 1000, "config.json": b"{}"})
    bench.want()
    bench.start()
    assert {"agent.runtime", "aiohttp", "fastapi"} <= bench.imported()
    assert bench.imported() & HEAVY == set()
    assert psutil.Process(bench.agents[0].pid).memory_info().rss < IDLE_BYTES
    bench.want(model.entry)
    bench.wait_phase(model, "Ready")
    assert "shared.http.client" in bench.imported()
    assert bench.answers("/v1/models") == bench.answers("/metrics") == 200
    assert bench.imported() & HEAVY == set()
