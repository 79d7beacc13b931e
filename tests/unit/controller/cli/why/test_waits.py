"""What `larder why` reports about pods that may wait for their model."""

from typing import Any

from controller.cli.why.findings import Severity
from controller.cli.why.kinds import ObservedPod, ObservedPodSpec, ObservedPodStatus
from controller.cli.why.pods import why_pod
from controller.cli.why.view import ClusterView
from shared.api.core import SchedulingGate
from shared.api.meta import NodeState
from tests.builders.cluster import cache, meta, model_node
from tests.builders.why import GPU, at_a, declared, node, node_with_model, reasons, seen, with_entry

GATES = [SchedulingGate(name="larder.dev/model")]


def waiting(node_name: str = "", models: str = "m@r1", placement: str = "preferred", **spec: Any) -> ObservedPod:
    asks = {"larder.dev/models": models, "larder.dev/placement": placement}
    return ObservedPod(
        metadata=meta("p", namespace="ns", annotations=asks),
        spec=ObservedPodSpec(node_name=node_name, **spec),
        status=ObservedPodStatus(phase="Pending"),
    )


def messages(pod: ObservedPod, cluster: ClusterView) -> dict[str, str]:
    return {f.reason: f.message for f in why_pod(pod, cluster).findings}


def test_a_gated_pod_waits_for_its_gate_and_another_gate_stops_it() -> None:
    found = why_pod(waiting(placement="gated", scheduling_gates=GATES), seen())
    assert "Gated" in reasons(found, Severity.WAIT)
    claims = [SchedulingGate(name="larder.dev/volume-claims")]
    found = why_pod(waiting(placement="gated", scheduling_gates=claims), seen())
    assert "Gated" in reasons(found, Severity.WAIT)
    assert "OtherGate" not in reasons(found, Severity.STOP)
    others = [*GATES, SchedulingGate(name="example.org/quota")]
    assert "OtherGate" in reasons(why_pod(waiting(placement="gated", scheduling_gates=others), seen()), Severity.STOP)


def test_a_preferred_pod_is_reported_with_the_nodes_that_have_the_files() -> None:
    found = messages(waiting(), seen())
    assert found["Preferred"] == "nodes with the files: a, b; on any other node, the pod waits for them"
    assert not {"SelectorRemoved", "NoNodeHasLabel"} & found.keys()
    nowhere = why_pod(waiting(), seen(nodes=(node("c"),)))
    assert "nodes with the files: none; on any other node" in messages(waiting(), seen(nodes=(node("c"),)))["Preferred"]
    assert "NoNodes" in reasons(nowhere, Severity.STOP)


def test_a_preferred_pod_is_reported_with_the_nodes_that_accept_it_or_why_none_does() -> None:
    nodes = (node("a", GPU), node("b"))
    assert messages(waiting(node_selector=GPU), seen(nodes=nodes))["Fits"] == "accepted by a"
    found = why_pod(waiting(node_selector={"zone": "x"}), seen(nodes=nodes))
    barriers = {f.about: f.message for f in found.findings if f.reason == "DoesNotFit"}
    assert barriers == dict.fromkeys(("node/a", "node/b"), "lacks zone=x, which the pod selects")


def test_a_pod_on_a_node_is_reported_with_the_progress_of_the_node() -> None:
    model = declared(cache("m", "gpus"), NodeState(name="a", phase="Downloading", revision="r1", percent=35))
    loading = with_entry(node_with_model("a", "Downloading"), size=2**30)
    found = messages(waiting("a"), at_a(loading, models=(model,)))
    assert "about 35 % of 1.0 GiB" in found["Progress"]
    full = at_a(node_with_model("a", "Failed", "InsufficientStorage", "needs 5 GiB"))
    assert "needs 5 GiB" in messages(waiting("a"), full)["InsufficientStorage"]
    assert "OnNode" in messages(waiting("a"), seen())


def test_a_pod_whose_revision_its_node_will_never_get_is_reported_as_a_problem() -> None:
    found = why_pod(waiting("a", "m@r0"), seen(nodes=(node("a", GPU),)))
    assert "NotListed" in reasons(found, Severity.STOP)
    assert "will never get revision r0" in messages(waiting("a", "m@r0"), seen(nodes=(node("a", GPU),)))["NotListed"]


def test_a_pod_on_a_node_that_its_model_does_not_select_is_told_so() -> None:
    elsewhere = seen(nodes=(node("c"),), model_nodes={"c": model_node("c")})
    assert "does not select the pod's node" in messages(waiting("c"), elsewhere)["NotListed"]


def test_a_pod_that_waits_on_a_node_without_an_agent_is_reported_as_a_problem() -> None:
    missing = at_a(node_with_model("a", "Pending"), agents={})
    assert "NoAgent" in reasons(why_pod(waiting("a"), missing), Severity.STOP)
    assert "NoAgent" not in reasons(why_pod(waiting("a"), seen(agents={})), Severity.STOP)
