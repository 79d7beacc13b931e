"""Nodes without a kubelet on a real control plane."""

import http.server
import threading
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from rig.agents import NAMESPACE, create_agent_pod, delete_agent_pod, token
from rig.control_plane import ControlPlane
from rig.errors import CallRefused
from rig.fake_nodes import Nodes
from rig.ports import free_port
from rig.processes import wait_until

SOON_S = 60.0


@pytest.fixture(scope="module")
def nodes(control_plane: ControlPlane) -> Iterator[Nodes]:
    with Nodes(control_plane.kubeconfig) as running:
        yield running


def _condition(thing: dict[str, Any], kind: str = "Ready") -> str | None:
    found = [one["status"] for one in thing.get("status", {}).get("conditions", []) if one["type"] == kind]
    return found[0] if found else None


def _eventually(look: Callable[[], bool], what: str) -> None:
    wait_until(look, SOON_S, what)


def _pod(name: str, selector: dict[str, str]) -> dict[str, Any]:
    spec = {"nodeSelector": selector, "containers": [{"name": "main", "image": "none"}]}
    return {"metadata": {"name": name}, "spec": spec}


def test_a_pod_is_scheduled_runs_and_is_deleted(control_plane: ControlPlane, nodes: Nodes) -> None:
    api, pods = control_plane.api, "/api/v1/namespaces/default/pods"
    nodes.add("rig-a", {"rig": "a"})
    api.create(pods, _pod("rig-runs", {"rig": "a"}))
    _eventually(lambda: _condition(api.get(f"{pods}/rig-runs")) == "True", "the pod to be Ready")
    found = api.get(f"{pods}/rig-runs")
    assert found["spec"]["nodeName"] == "rig-a"
    assert (found["status"]["phase"], _condition(found, "PodScheduled")) == ("Running", "True")
    api.delete(f"{pods}/rig-runs")
    _eventually(lambda: not api.answers(f"{pods}/rig-runs"), "the pod to be gone")


def test_a_lost_node_becomes_not_ready_and_comes_back(control_plane: ControlPlane, nodes: Nodes) -> None:
    api = control_plane.api
    nodes.add("rig-b")
    _eventually(lambda: _condition(api.get("/api/v1/nodes/rig-b")) == "True", "the node to be Ready")
    uid = api.get("/api/v1/nodes/rig-b")["metadata"]["uid"]
    with nodes.lost("rig-b"):
        _eventually(lambda: _condition(api.get("/api/v1/nodes/rig-b")) == "Unknown", "the node to be NotReady")
    _eventually(lambda: _condition(api.get("/api/v1/nodes/rig-b")) == "True", "the node to be Ready again")
    nodes.remove("rig-b")
    assert not api.answers("/api/v1/nodes/rig-b")
    nodes.add("rig-b")
    assert api.get("/api/v1/nodes/rig-b")["metadata"]["uid"] != uid


def test_nodes_and_pods_continue_after_the_api_server_crashed(control_plane: ControlPlane, nodes: Nodes) -> None:
    api, pods = control_plane.api, "/api/v1/namespaces/default/pods"
    nodes.add("rig-f", {"rig": "f"})
    control_plane.restart_apiserver()
    api.create(pods, _pod("rig-after", {"rig": "f"}))
    _eventually(lambda: _condition(api.get(f"{pods}/rig-after")) == "True", "the pod to be Ready")
    api.delete(f"{pods}/rig-after")
    _eventually(lambda: not api.answers(f"{pods}/rig-after"), "the pod to be gone")
    _eventually(lambda: _condition(api.get("/api/v1/nodes/rig-f")) == "True", "the node to be Ready")


class _Ready(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def test_an_agent_pod_is_ready_when_its_probe_answers(control_plane: ControlPlane, nodes: Nodes) -> None:
    api, port = control_plane.api, free_port()
    nodes.add("rig-c")
    pod = create_agent_pod(api, "rig-c", probe_port=port)
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod.name}"
    _eventually(lambda: _condition(api.get(path)) == "False", "the pod to run, not Ready")
    with http.server.HTTPServer(("127.0.0.1", port), _Ready) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        _eventually(lambda: _condition(api.get(path)) == "True", "the pod to be Ready")
        server.shutdown()
        thread.join()
    _eventually(lambda: _condition(api.get(path)) == "False", "the pod not to be Ready any more")


def test_a_token_names_the_node_and_is_invalid_once_its_pod_is_deleted(
    control_plane: ControlPlane, nodes: Nodes
) -> None:
    api = control_plane.api
    nodes.add("rig-d")
    pod = create_agent_pod(api, "rig-d", probe_port=free_port(), namespace="rig-tokens")
    review = {"spec": {"token": token(api, pod, ["larder"]), "audiences": ["larder"]}}
    status = api.create("/apis/authentication.k8s.io/v1/tokenreviews", review)["status"]
    assert status["authenticated"] is True
    assert status["user"]["username"] == "system:serviceaccount:rig-tokens:agent"
    assert status["user"]["extra"]["authentication.kubernetes.io/node-name"] == ["rig-d"]
    assert status["user"]["extra"]["authentication.kubernetes.io/pod-uid"] == [pod.uid]
    unused = token(api, pod, ["larder"])
    delete_agent_pod(api, pod)
    review = {"spec": {"token": unused, "audiences": ["larder"]}}
    _eventually(
        lambda: "authenticated" not in api.create("/apis/authentication.k8s.io/v1/tokenreviews", review)["status"],
        "the token to end with its pod",
    )


def test_a_kubeconfig_with_a_token_authenticates_as_the_agent(
    control_plane: ControlPlane, nodes: Nodes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    api = control_plane.api
    nodes.add("rig-e")
    pod = create_agent_pod(api, "rig-e", probe_port=free_port(), namespace="rig-tokens")
    shown = token(api, pod)
    written = control_plane.token_kubeconfig(shown, tmp_path_factory.mktemp("token") / "kubeconfig")
    assert written.stat().st_mode & 0o777 == 0o600
    as_agent = control_plane.api_with_token(shown)
    with pytest.raises(CallRefused, match="system:serviceaccount:rig-tokens:agent") as refusal:
        as_agent.get("/api/v1/secrets")
    assert refusal.value.status == httpx.codes.FORBIDDEN
    as_agent.close()
