"""The pod that an agent process represents, and the token that a kubelet would mount into it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rig.api import Api
from rig.fake_nodes.decide import AGENT_LABEL, PROBE_ANNOTATION

NAMESPACE = "larder-system"
SERVICE_ACCOUNT = "agent"

_TOKEN_S = 24 * 3600


@dataclass(frozen=True)
class AgentPod:
    """A pod bound to a node, to which tokens can be bound."""

    namespace: str
    name: str
    uid: str
    service_account: str


def ensure_namespace(api: Api, namespace: str) -> None:
    """Create a namespace unless it exists."""
    api.ensure("/api/v1/namespaces", {"metadata": {"name": namespace}})


def ensure_service_account(api: Api, name: str = SERVICE_ACCOUNT, namespace: str = NAMESPACE) -> None:
    """Create a service account and its namespace unless they exist."""
    ensure_namespace(api, namespace)
    api.ensure(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": name}})


def create_agent_pod(
    api: Api, node: str, *, probe_port: int, service_account: str = SERVICE_ACCOUNT, namespace: str = NAMESPACE
) -> AgentPod:
    """Create the pod of the agent on a node, as the DaemonSet controller and the scheduler would.

    Its probe makes it Ready.
    """
    ensure_service_account(api, service_account, namespace)
    pods = f"/api/v1/namespaces/{namespace}/pods"
    made = api.create(pods, manifest(node, probe_port, service_account))["metadata"]
    return AgentPod(namespace, made["name"], made["uid"], service_account)


def delete_agent_pod(api: Api, pod: AgentPod) -> None:
    """Delete the pod at once; its tokens become invalid."""
    api.delete(f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}", grace_s=0)


def token(api: Api, pod: AgentPod, audiences: Sequence[str] = (), lifetime_s: int = _TOKEN_S) -> str:
    """Return a token bound to the pod; without audiences it is for the API server."""
    bound = {"kind": "Pod", "apiVersion": "v1", "name": pod.name, "uid": pod.uid}
    request = {"spec": {"audiences": list(audiences), "expirationSeconds": lifetime_s, "boundObjectRef": bound}}
    accounts = f"/api/v1/namespaces/{pod.namespace}/serviceaccounts"
    return str(api.create(f"{accounts}/{pod.service_account}/token", request)["status"]["token"])


def manifest(node: str, probe_port: int, service_account: str) -> dict[str, Any]:
    """Return the manifest of the agent's pod; its image is never pulled, because a process of the rig replaces it."""
    component, agent = AGENT_LABEL
    return {
        "metadata": {
            "generateName": f"larder-agent-{node}-",
            "labels": {component: agent, "app.kubernetes.io/name": "larder"},
            "annotations": {PROBE_ANNOTATION: str(probe_port)},
        },
        "spec": {
            "nodeName": node,
            "serviceAccountName": service_account,
            "automountServiceAccountToken": False,
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "agent", "image": "larder-agent"}],
        },
    }
