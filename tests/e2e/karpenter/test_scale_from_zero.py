"""A pool without nodes: which pods with a model make Karpenter add a node."""

from shared.names import ready_label
from tests.e2e.karpenter.pool import STARTUP_TAINT, Pool

MODEL = "tiny-gpt2"


def test_only_a_pod_that_does_not_require_the_files_triggers_a_new_node(pool: Pool) -> None:
    larder = pool.larder
    pool.apply(pool.example("nodepool.yaml"))
    requires = pool.deploy("required")
    larder.until(
        lambda: any("incompatible" in event for event in pool.karpenter_events(requires)), "Karpenter to refuse"
    )
    assert pool.node_claims() == []

    prefers = pool.deploy("preferred")
    node = pool.boot()
    larder.until(lambda: larder.pod_node(prefers) == node, f"{prefers} on {node}")
    larder.until(lambda: larder.phases(node, MODEL) == ["Ready"], f"{MODEL} on {node}")
    assert larder.labels(node)[ready_label(MODEL)] == "true"
    larder.until(lambda: larder.pod_node(requires) == node, f"{requires} on {node}, now that the labels are there")
    assert len(pool.node_claims()) == 1


def test_a_startup_taint_blocks_pods_until_the_models_are_ready(pool: Pool) -> None:
    larder = pool.larder
    pool.close("gpu")
    pool.apply(pool.example("nodepool-with-startup-taint.yaml"))
    pod = pool.deploy("preferred")
    node = pool.boot(agent=False)
    larder.until(lambda: pool.taints(node) == [STARTUP_TAINT], f"{node} to have the startup taint alone")
    assert larder.pod_node(pod) == ""
    assert "karpenter.sh/initialized" not in larder.labels(node)

    larder.cluster.start_agent(node)
    larder.until(lambda: larder.pod_node(pod) == node, f"{pod} on {node}")
    assert STARTUP_TAINT not in pool.taints(node)
    assert larder.labels(node)[ready_label(MODEL)] == "true"
    larder.until(
        lambda: larder.labels(node).get("karpenter.sh/initialized") == "true", "Karpenter to see it initialized"
    )
