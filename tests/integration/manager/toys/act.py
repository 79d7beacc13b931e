"""Applies the decided actions."""

from dataclasses import dataclass
from typing import Any

from controller.manager.write import replace_part
from shared.kube.edit import apply
from shared.kube.transport import Kube
from tests.integration.manager.toys.api import TOY, Toy, ToyStatus

LABEL = "toys.example.com/made"


@dataclass(frozen=True, slots=True)
class ToyActor:
    kube: Kube

    async def make(self, toy: Toy, shown: str) -> None:
        meta = toy.metadata
        owner = {"apiVersion": f"{TOY.group}/{TOY.version}", "kind": TOY.kind, "name": meta.name, "uid": meta.uid}
        metadata = {"name": meta.name, "namespace": meta.namespace, "labels": {LABEL: "true"}}
        manifest: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {**metadata, "ownerReferences": [owner]},
            "data": {"shown": shown},
        }
        path = f"/api/v1/namespaces/{meta.namespace}/configmaps/{meta.name}"
        await apply(self.kube, path, manifest, "toys")

    async def write_status(self, toy: Toy, status: ToyStatus) -> None:
        path = f"{TOY.path_in(toy.metadata.namespace)}/{toy.metadata.name}/status"
        await replace_part(self.kube, path, toy.metadata, "status", status)
