"""Applies the actions decided for a node to its ModelNode."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec

from controller.manager.write import replace_part
from controller.nodes.view import NodeView
from shared.api.model_node import GROUP, PATH, VERSION, ModelNodeSpec
from shared.kube.errors import Conflict, NotFound
from shared.kube.transport import Kube


@dataclass(frozen=True, slots=True)
class NodeActor:
    """Writes to ModelNodes, each based on the version that the decision saw."""

    kube: Kube

    async def create(self, view: NodeView, spec: ModelNodeSpec) -> None:
        """Create the ModelNode, owned by its Node so that it is deleted with it."""
        owner = {"apiVersion": "v1", "kind": "Node", "name": view.name, "uid": view.uid}
        body: dict[str, Any] = {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": "ModelNode",
            "metadata": {"name": view.name, "ownerReferences": [owner]},
            "spec": msgspec.to_builtins(spec),
        }
        with suppress(Conflict):  # created by the previous leader; the watch will deliver it
            await self.kube.request("POST", PATH, body=body)

    async def write(self, view: NodeView, spec: ModelNodeSpec) -> None:
        """Replace the whole spec."""
        if view.model_node is not None:
            seen = view.model_node.metadata
            await replace_part(self.kube, f"{PATH}/{view.name}", seen, "spec", spec)

    async def replace(self, view: NodeView) -> None:
        """Delete the ModelNode of a Node that is gone; the next reconcile creates one for the new Node."""
        if view.model_node is not None:
            body = {"preconditions": {"uid": view.model_node.metadata.uid}}
            with suppress(NotFound, Conflict):
                await self.kube.request("DELETE", f"{PATH}/{view.name}", body=body)
