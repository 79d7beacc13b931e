"""The actions of tests on any cluster with Larder: on its objects, its nodes and its sources."""

import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rig.api import Api
from rig.errors import CallRefused
from rig.hub import Hub, RepositoryAccess
from rig.larder.objects import create, path_of
from rig.model import write_model
from rig.processes import wait_until
from rig.s3 import S3
from shared.json_object import Json
from shared.names import snapshot_path

TIMEOUT_S = 300.0
_STATE = {"ModelCache": "storageStatus", "ClusterModelCache": "storageStatus"}


@dataclass(kw_only=True)
class ClusterDriver(ABC):
    """Drives a cluster: its sources, and the actions of users; models are first written to `folder`.

    Waits take five minutes at most unless given otherwise, and then raise StartFailed, which names the condition.
    """

    hub: Hub
    s3: S3
    folder: Path

    @property
    @abstractmethod
    def api(self) -> Api:
        """A client with all rights."""

    @abstractmethod
    def store(self, node: str) -> Path:
        """Return the path of a node's store on this machine."""

    @abstractmethod
    def explain(self) -> str:
        """Return diagnostics for a failed test: objects, Events, and the end of the programs' logs."""

    def name(self, stem: str = "m") -> str:
        """Return a name that no other test uses."""
        return f"{stem}-{uuid.uuid4().hex[:8]}"

    def push(
        self,
        size_bytes: int = 2**20,
        files: Mapping[str, bytes] | None = None,
        repo: str = "",
        access: RepositoryAccess | None = None,
    ) -> str:
        """Push a small model, or these files, to a repository (by default a new one), and return the URI."""
        repo = repo or f"org/{uuid.uuid4().hex[:12]}"
        self.hub.push(repo, self._written(size_bytes, files), access=access)
        return f"hf://{repo}"

    def upload(self, size_bytes: int = 2**20) -> str:
        """Upload a small model to a new bucket and return the URI."""
        bucket = self.name("bucket")
        self.s3.put_folder(bucket, "model", self._written(size_bytes, None))
        return f"s3://{bucket}/model"

    def _written(self, size_bytes: int, files: Mapping[str, bytes] | None) -> Path:
        folder = self.folder / uuid.uuid4().hex
        if files is None:
            write_model(folder, size_bytes=size_bytes, seed=uuid.uuid4().int % 2**31)
        for path, body in (files or {}).items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(body)
        return folder

    def create(self, kind: str, name: str, spec: Mapping[str, Any], **metadata: Any) -> str:  # noqa: ANN401 - fields of the metadata
        """Create one of our objects, as a user would, and return its name."""
        create(self.api, kind, name, spec, **metadata)
        return name

    def get(self, kind: str, name: str) -> Json:
        """Return an object."""
        return self.api.get(path_of(kind, name))

    def delete(self, kind: str, name: str) -> None:
        """Delete an object, as a user would."""
        self.api.delete(path_of(kind, name))

    def delete_unused(self, kind: str, name: str) -> None:
        """Delete a model or a group whose users are gone, as soon as admission no longer sees them."""

        def is_deleted() -> bool:
            try:
                self.delete(kind, name)
            except CallRefused as refusal:
                if "is used by" not in str(refusal):
                    raise
                return False
            return True

        self.until(is_deleted, f"the deletion of {kind} {name} to be admitted")

    def deletion_refusal(self, kind: str, name: str) -> str:
        """Return why admission refuses to delete an object, or an empty string; nothing is deleted."""
        try:
            self.api.delete(f"{path_of(kind, name)}?dryRun=All")
        except CallRefused as refusal:
            return str(refusal)
        return ""

    def is_gone(self, kind: str, name: str) -> bool:
        """Return whether an object no longer exists."""
        return not self.api.answers(path_of(kind, name))

    def cache(
        self,
        uri: str = "",
        group: str = "gpus",
        name: str = "",
        labels: Mapping[str, str] | None = None,
        **spec: object,
    ) -> str:
        """Create a ClusterModelCache, by default of a new repository, and return its name."""
        fields = {"storageUri": uri or self.push(), "nodeGroup": group, **spec}
        return self.create("ClusterModelCache", name or self.name("cache"), fields, labels=labels or {})

    def base_model(self, uri: str = "", name: str = "", **storage: object) -> str:
        """Create a ClusterBaseModel, by default of a new repository, and return its name.

        `storage` are further fields of spec.storage.
        """
        spec = {"modelFormat": {"name": "safetensors"}, "storage": {"storageUri": uri or self.push(), **storage}}
        return self.create("ClusterBaseModel", name or self.name("model"), spec)

    def group(self, labels: Mapping[str, str], **spec: object) -> str:
        """Create a node group for these labels and return its name."""
        fields = {"storageLimit": "1Gi", "nodeSelector": labels, **spec}
        return self.create("ModelCacheNodeGroup", self.name("group"), fields)

    def status(self, kind: str, name: str) -> Json:
        """Return the status of an object."""
        found: Json = self.get(kind, name).get("status", {})
        return found

    def ready_condition(self, kind: str, name: str) -> Json:
        """Return the Ready condition; empty if there is none yet."""
        conditions = self.status(kind, name).get("conditions", [])
        found: Json = next((c for c in conditions if c["type"] == "Ready"), {})
        return found

    def wait_ready(self, kind: str, name: str, within_s: float | None = None) -> Json:
        """Wait until the object is Ready for its present spec, and return the status."""
        found: list[Json] = []

        def ready() -> bool:
            found[:] = [self.get(kind, name)]
            return is_ready(found[0])

        self.until(ready, f"{kind} {name} to be Ready", within_s)
        status: Json = found[0]["status"]
        return status

    def wait_reason(self, kind: str, name: str, reason: str, within_s: float | None = None) -> str:
        """Wait for the reason on the object or one of its nodes, and return the message with it."""
        messages: list[str] = []

        def reported() -> bool:
            status = self.status(kind, name)
            states = [*status.get("nodes", []), *(c for c in status.get("conditions", []) if c["type"] == "Ready")]
            messages[:] = [str(one["message"]) for one in states if one.get("reason") == reason]
            return bool(messages)

        self.until(reported, f"{kind} {name} to report {reason}", within_s)
        return messages[0]

    def labels(self, node: str) -> dict[str, str]:
        """Return the labels of a node."""
        found: dict[str, str] = self.get("Node", node)["metadata"]["labels"]
        return found

    def label(self, node: str, labels: Mapping[str, str | None]) -> None:
        """Set labels of a node; None removes a label."""
        self.api.patch(path_of("Node", node), {"metadata": {"labels": labels}})

    def entries(self, node: str, model: str) -> list[Json]:
        """Return the entries of a model in the spec of a node's ModelNode."""
        spec = self.get("ModelNode", node).get("spec", {})
        return [e for e in spec.get("entries", []) if e["id"] == model]

    def claimants(self, node: str, model: str) -> list[list[str]]:
        """Return the kinds that claim each entry of a model on a node."""
        return [sorted(claim["kind"] for claim in e.get("claims", [])) for e in self.entries(node, model)]

    def phases(self, node: str, model: str) -> list[str]:
        """Return the phases of a model that the agent of a node reports."""
        entries = self.status("ModelNode", node).get("entries", [])
        return [e.get("phase", "Pending") for e in entries if e["id"] == model]

    def events(self, name: str) -> list[Json]:
        """Return the Events about objects of this name, in all namespaces.

        The API server filters them by name. Some Events have none: a slow API server emits them about its ServiceCIDR.
        """
        found: list[Json] = self.api.get(f"/api/v1/events?fieldSelector=involvedObject.name={name}")["items"]
        return found

    def reasons(self, name: str) -> dict[str, str]:
        """Return the message of one of the Events about objects of this name, by reason."""
        return {event["reason"]: event["message"] for event in self.events(name)}

    def snapshot(self, node: str, model: str, revision: str) -> Path:
        """Return the path of a revision on a node."""
        return self.store(node) / snapshot_path(model, revision)

    def until(self, condition: Callable[[], bool], what: str, within_s: float | None = None) -> None:
        """Wait until the condition holds."""
        wait_until(condition, TIMEOUT_S if within_s is None else within_s, what)


def is_ready(model: Json) -> bool:
    """Return whether a model or cache is Ready for its present spec, and not with an older revision."""
    status = model.get("status", {})
    state = status.get(_STATE.get(model["kind"], "state"))
    updating = any(c["type"] == "Updating" and c["status"] == "True" for c in status.get("conditions", []))
    observed = status.get("observedGeneration") == model["metadata"]["generation"]
    return bool(state == "Ready" and observed and not updating)
