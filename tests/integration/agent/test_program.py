"""The program's ends: what it says and returns where it cannot go on."""

from tests.integration.agent.bench import Bench


def test_a_second_agent_on_the_same_directory_is_refused(bench: Bench) -> None:
    bench.want()
    bench.start()
    second = bench.start(ready=False)
    bench.wait_for(lambda: second.exit_code is not None, "the end of the second agent")
    assert second.exit_code == 1
    failed = [e for e in bench.events() if e.get("event") == "agent failed"]
    assert [e["reason"] for e in failed] == ["StoreFailure"]
    assert "in use" in failed[0]["message"]


def test_without_a_cluster_it_says_what_to_set(bench: Bench) -> None:
    agent = bench.start("--kubeconfig", str(bench.state / "none"), ready=False)
    bench.wait_for(lambda: agent.exit_code is not None, "the end of the agent")
    assert agent.exit_code == 1
    failed = [e for e in bench.events() if e.get("event") == "agent failed"]
    assert [e["reason"] for e in failed] == ["NoCluster"]


def test_it_is_alive_and_not_ready_while_its_node_is_not_there(bench: Bench) -> None:
    bench.api.delete(f"/api/v1/nodes/{bench.node}")
    bench.start(ready=False)
    bench.wait_for(lambda: bench.answers("/healthz") == 200, "an answer")
    assert bench.answers("/readyz") == 503
    bench.create_node()
    bench.want()
    bench.wait_for(bench.is_ready, "the agent to be ready")
