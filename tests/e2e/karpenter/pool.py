"""A pool of nodes that Karpenter adds, and the pods for which it adds them."""

import json
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from rig.larder.site import Site
from shared.json_object import Json

EXAMPLES = Path(__file__).parents[3] / "examples" / "autoscaling"
CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
PODS = "/api/v1/namespaces/default/pods"
STARTUP_TAINT = "larder.dev/agent-not-ready"
PLACEMENT = "larder.dev/placement"
_CLASS = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}


@dataclass(frozen=True)
class Pool:
    """The examples on a cluster with Larder and Karpenter."""

    larder: Site
    kubectl: Path
    booted: set[str] = field(default_factory=set)

    def example(self, name: str) -> Json:
        """Return the objects of a file in `examples/autoscaling` as a List, with the node class of the rig."""
        items = list(yaml.safe_load_all((EXAMPLES / name).read_text()))
        for item in items:
            if item["kind"] == "NodePool":
                item["spec"]["template"]["spec"]["nodeClassRef"] = _CLASS
        return {"apiVersion": "v1", "kind": "List", "items": items}

    def node_class(self) -> Json:
        """Return the class of nodes that the rig's provider rents."""
        return {"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"}}

    def apply(self, *objects: Json) -> None:
        """Apply objects as a user would."""
        argv = [str(self.kubectl), f"--kubeconfig={self.larder.cluster.plane.kubeconfig}", "apply", "-f", "-"]
        for each in objects:
            done = subprocess.run(argv, input=json.dumps(each), capture_output=True, text=True, check=False)  # noqa: S603 - our own kubectl
            assert done.returncode == 0, done.stderr

    def deploy(self, placement: str) -> str:
        """Apply the Deployment of the examples under a new name and with this placement, and return its pod."""
        (deployment,) = self.example("deployment.yaml")["items"]
        name = self.larder.name("reader")
        deployment["metadata"]["name"] = name
        for labels in (
            deployment["spec"]["selector"]["matchLabels"],
            deployment["spec"]["template"]["metadata"]["labels"],
        ):
            labels["app"] = name
        deployment["spec"]["template"]["metadata"]["annotations"][PLACEMENT] = placement
        self.apply(deployment)
        found: list[Json] = []

        def is_there() -> bool:
            found[:] = self.larder.api.get(f"{PODS}?labelSelector=app={name}")["items"]
            return bool(found)

        self.larder.until(is_there, f"the pod of {name}")
        return str(found[0]["metadata"]["name"])

    def karpenter_events(self, pod: str) -> list[str]:
        """Return the messages of Karpenter's Events for a pod."""
        about = f"involvedObject.name={pod},source=karpenter"
        events = self.larder.api.get(f"/api/v1/namespaces/default/events?fieldSelector={about}")["items"]
        return [event["message"] for event in events]

    def node_claims(self) -> list[str]:
        """Return the NodeClaims that Karpenter created."""
        return [claim["metadata"]["name"] for claim in self.larder.api.get(CLAIMS)["items"]]

    def boot(self, *, agent: bool = True) -> str:
        """Wait for a new node, start its kubelet and its agent, and return its name."""
        found: list[str] = []

        def is_there() -> bool:
            nodes = self.larder.api.get("/api/v1/nodes?labelSelector=pool=gpu")["items"]
            found[:] = [n["metadata"]["name"] for n in nodes if n["metadata"]["name"] not in self.booted]
            return bool(found)

        self.larder.until(is_there, "Karpenter to add a node")
        self.booted.add(found[0])
        self.larder.cluster.add_node(found[0], agent=agent)
        return found[0]

    def close(self, name: str) -> None:
        """Stop a NodePool from adding nodes, if it exists."""
        path = f"/apis/karpenter.sh/v1/nodepools/{name}"
        if self.larder.api.answers(path):
            self.larder.api.patch(path, {"spec": {"limits": {"cpu": "0"}}})

    def taints(self, node: str) -> list[str]:
        """Return the keys of a node's taints."""
        return [taint["key"] for taint in self.larder.get("Node", node)["spec"].get("taints", [])]
