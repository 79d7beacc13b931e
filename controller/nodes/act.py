"""Applies the actions decided for a node to its ModelNode."""

from dataclasses import dataclass
from typing import Any

import msgspec

from controller.manager.write import replace_part
from controller.nodes.view import NodeView
from shared.api.model_node import GROUP, PATH, VERSION, ModelNodeSpec
from shared.kube.edit import create_if_missing, delete_if_present
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
        await create_if_missing(self.kube, PATH, body)  # if the previous leader created it, the watch will deliver it

    async def write(self, view: NodeView, spec: ModelNodeSpec) -> None:
        """Replace the whole spec."""
        if view.model_node is not None:
            seen = view.model_node.metadata
            await replace_part(self.kube, f"{PATH}/{view.name}", seen, "spec", spec)

    async def replace(self, view: NodeView) -> None:
        """Delete the ModelNode of a Node that is gone; the next reconcile creates one for the new Node."""
        if view.model_node is not None:
            await delete_if_present(self.kube, f"{PATH}/{view.name}", view.model_node.metadata.uid)
