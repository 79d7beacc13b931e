"""Node and Lease objects as a kubelet writes them."""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"

_LEASE_S = 40
_LONGEST_LABEL = 63


@dataclass(frozen=True)
class NodeSpec:
    """A node to create: its extra labels, and its resources for pods."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    cpu: str = "8"
    memory: str = "32Gi"
    pods: int = 110


def node(spec: NodeSpec) -> dict[str, Any]:
    """Return the Node as it registers itself."""
    hostname = spec.name[:_LONGEST_LABEL].rstrip("-.")  # a Node's name may be longer than its host's
    usual = {"kubernetes.io/hostname": hostname, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": spec.name, "labels": {**usual, **spec.labels}},
    }


def status(spec: NodeSpec, conditions: list[dict[str, Any]], now: dt.datetime) -> dict[str, Any]:
    """Return a merge patch for the status of the Node: resources, and Ready in addition to others' conditions."""
    resources = {"cpu": spec.cpu, "memory": spec.memory, "pods": str(spec.pods), "ephemeral-storage": "100Gi"}
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "the rig sends this node's heartbeats",
        "lastHeartbeatTime": seconds(now),
        "lastTransitionTime": seconds(now),
    }
    others = [condition for condition in conditions if condition.get("type") != "Ready"]
    addresses = [{"type": "InternalIP", "address": "127.0.0.1"}, {"type": "Hostname", "address": spec.name}]
    return {
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "addresses": addresses,
            "conditions": [*others, ready],
        }
    }


def is_ready(conditions: list[dict[str, Any]]) -> bool:
    """Return whether the conditions say that the node or pod is Ready."""
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)


def lease(name: str, now: dt.datetime) -> dict[str, Any]:
    """Return the Lease whose renewal is the heartbeat of a node."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name},
        "spec": {"holderIdentity": name, "leaseDurationSeconds": _LEASE_S, **renewal(now)["spec"]},
    }


def renewal(now: dt.datetime) -> dict[str, Any]:
    """Return a merge patch that renews a Lease."""
    return {"spec": {"renewTime": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")}}


def seconds(now: dt.datetime) -> str:
    """Format a time as a Kubernetes Time."""
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")
