"""A cluster with Larder and its sources, and the moves that tests of the whole system make."""

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rig.hub import Hub
from rig.larder.cluster import OBJECTS, LarderCluster
from rig.model import write_model
from rig.processes import wait_until
from rig.s3 import S3
from rig.shelves import FileServer

Json = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"


@dataclass
class Site:
    """The cluster, its sources, and the moves that tests make."""

    cluster: LarderCluster
    hub: Hub
    s3: S3
    web: FileServer
    web_url: str
    folder: Path

    def name(self, stem: str = "m") -> str:
        """Return a name that no other test has."""
        return f"{stem}-{uuid.uuid4().hex[:8]}"

    def push(self, size_bytes: int = 2**20, files: dict[str, bytes] | None = None, repo: str = "") -> str:
        """Push a small model, or these files, and return the repository."""
        repo = repo or f"org/{uuid.uuid4().hex[:12]}"
        folder = self.folder / uuid.uuid4().hex
        if files is None:
            write_model(folder, size_bytes=size_bytes, seed=uuid.uuid4().int % 2**31)
        for path, body in (files or {}).items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(body)
        self.hub.push(repo, folder)
        return repo

    def cache(
        self, uri: str, group: str = "gpus", name: str = "", labels: Mapping[str, str] | None = None, **spec: object
    ) -> str:
        """Declare a ClusterModelCache and return its name."""
        name = name or self.name("cache")
        fields = {"storageUri": uri, "nodeGroup": group} | spec
        self.cluster.create("ClusterModelCache", name, fields, labels=labels or {})
        return name

    def base_model(self, uri: str, name: str = "", **storage: object) -> str:
        """Declare a ClusterBaseModel and return its name; `storage` are further fields of spec.storage."""
        name = name or self.name("model")
        spec = {"modelFormat": {"name": "safetensors"}, "storage": {"storageUri": uri, **storage}}
        self.cluster.create("ClusterBaseModel", name, spec)
        return name

    def group(self, labels: Mapping[str, str], **spec: object) -> str:
        """Make a node group for these labels and return its name."""
        name = self.name("group")
        self.cluster.create("ModelCacheNodeGroup", name, {"storageLimit": "1Gi", "nodeSelector": labels} | spec)
        return name

    def status(self, kind: str, name: str) -> Json:
        """Return an object's status."""
        found: Json = self.cluster.get(kind, name).get("status", {})
        return found

    def ready_condition(self, kind: str, name: str) -> Json:
        """Return the condition Ready, empty where there is none yet."""
        conditions = self.status(kind, name).get("conditions", [])
        found: Json = next((c for c in conditions if c["type"] == "Ready"), {})
        return found

    def wait_ready(self, kind: str, name: str, within_s: float = 30) -> Json:
        """Return the status once the object is Ready."""
        key = "storageStatus" if kind == "ClusterModelCache" else "state"
        self.until(lambda: self.status(kind, name).get(key) == "Ready", f"{kind} {name} to be Ready", within_s)
        return self.status(kind, name)

    def wait_reason(self, kind: str, name: str, reason: str, within_s: float = 30) -> str:
        """Wait for the reason on the object or one of its nodes, and return its message."""

        def found() -> str | None:
            status = self.status(kind, name)
            for node in status.get("nodes", []):
                if node.get("reason") == reason:
                    return str(node["message"])
            condition = self.ready_condition(kind, name)
            return str(condition["message"]) if condition.get("reason") == reason else None

        self.until(lambda: found() is not None, f"{kind} {name} to say {reason}", within_s)
        return found() or ""

    def labels(self, node: str) -> dict[str, str]:
        """Return a node's labels."""
        found: dict[str, str] = self.cluster.get("Node", node)["metadata"]["labels"]
        return found

    def label(self, node: str, labels: Mapping[str, str | None]) -> None:
        """Set labels of a node, or take those away that are None."""
        self.cluster.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": labels}})

    def entries(self, node: str, model: str) -> list[Json]:
        """Return what a node's ModelNode wants of a model."""
        spec = self.cluster.get("ModelNode", node).get("spec", {})
        return [e for e in spec.get("entries", []) if e["id"] == model]

    def phases(self, node: str, model: str) -> list[str]:
        """Return where the agent of a node says that it stands with a model."""
        status = self.cluster.get("ModelNode", node).get("status", {})
        return [e.get("phase", "Pending") for e in status.get("entries", []) if e["id"] == model]

    def snapshot(self, node: str, model: str, revision: str) -> Path:
        """Return where a node has a revision."""
        return self.cluster.agents[node].root / "models" / model / revision

    def delete(self, kind: str, name: str) -> None:
        """Delete an object, as a user would."""
        self.cluster.api.delete(f"{OBJECTS[kind]}/{name}")

    def is_gone(self, kind: str, name: str) -> bool:
        """Return whether an object is not there any more."""
        return not self.cluster.api.answers(f"{OBJECTS[kind]}/{name}")

    def pod(self, body: Json) -> Json:
        """Create a pod and return it as it was admitted."""
        return self.cluster.api.create(PODS, body)

    def pod_node(self, name: str) -> str:
        """Return the node that the scheduler chose, empty before."""
        return str(self.cluster.api.get(f"{PODS}/{name}")["spec"].get("nodeName", ""))

    def delete_pod(self, name: str) -> None:
        """Take a pod away at once."""
        self.cluster.api.delete(f"{PODS}/{name}", grace_s=0)

    @staticmethod
    def until(condition: Callable[[], bool], what: str, within_s: float = 30) -> None:
        """Return when the condition holds; raise StartFailed naming `what`."""
        wait_until(condition, within_s, what)
