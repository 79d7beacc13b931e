"""A control plane with Larder's kinds but without Larder: tests write the status; an audit log has every request."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rig.binaries import Binaries
from rig.control_plane import ControlPlane, Options
from rig.larder.objects import install_kinds
from shared.api.kinds import CLUSTER_MODEL_CACHE, Definition
from shared.json_object import Json

_POLICY = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]}
SPECS: dict[str, Json] = {
    "ClusterModelCache": {"storageUri": "hf://org/model", "nodeGroup": "gpus"},
    "ClusterBaseModel": {"storage": {"storageUri": "hf://org/model"}},
    "BaseModel": {"storage": {"storageUri": "hf://org/model"}},
}


@dataclass(frozen=True)
class Cluster:
    """The control plane, and the requests to its API server."""

    plane: ControlPlane
    audit: Path

    def declare(
        self, name: str, definition: Definition = CLUSTER_MODEL_CACHE, namespace: str = "", **status: Any
    ) -> None:
        """Create a model and write its status, as the controller would."""
        path = definition.path_in(namespace) if namespace else definition.path
        body = {
            "apiVersion": f"{definition.group}/{definition.version}",
            "kind": definition.kind,
            "metadata": {"name": name},
            "spec": SPECS[definition.kind],
        }
        self.plane.api.create(path, body)
        self.set_status(name, definition, namespace, **status)

    def set_status(
        self, name: str, definition: Definition = CLUSTER_MODEL_CACHE, namespace: str = "", **status: Any
    ) -> None:
        """Change a model's status."""
        path = definition.path_in(namespace) if namespace else definition.path
        self.plane.api.patch(f"{path}/{name}/status", {"status": status})

    def delete(self, name: str, definition: Definition = CLUSTER_MODEL_CACHE, namespace: str = "") -> None:
        """Delete a model."""
        path = definition.path_in(namespace) if namespace else definition.path
        assert self.plane.api.delete(f"{path}/{name}")

    def asked(self, agent: str) -> list[str]:
        """Return `VERB RESOURCE` of each request that a client began, by a part of its user agent."""
        lines = self.audit.read_text().splitlines(keepends=True)
        events = [json.loads(line) for line in lines if line.endswith("\n")]  # the last one may still be written
        return [
            f"{e['verb']} {e.get('objectRef', {}).get('resource', e['requestURI'])}"
            for e in events
            if e["stage"] == "RequestReceived" and agent in e.get("userAgent", "")
        ]


@pytest.fixture(scope="package")
def cluster(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    state = tmp_path_factory.mktemp("status")
    policy, log = state / "policy.json", state / "audit.log"
    policy.write_text(json.dumps(_POLICY))
    flags = (f"--audit-policy-file={policy}", f"--audit-log-path={log}")
    with ControlPlane(binaries, state / "plane", Options(apiserver_flags=flags)) as plane:
        install_kinds(plane.api)
        yield Cluster(plane, log)
