"""Reads everything needed to prepare a claim: live, the claim, its pod and the ModelNode; and the disk."""

import asyncio
from collections.abc import Collection, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any

from agent.dra.decide import PreparationView
from agent.dra.devices import HeldModel
from agent.dra.kubelet_claim import KubeletClaim
from agent.dra.snapshots import SnapshotScanner
from shared.api.model_node import PATH, Entry, ModelNode
from shared.kube.collection import decode, get_object, list_objects
from shared.kube.errors import NotFound
from shared.kube.transport import Kube
from shared.model_devices import FETCH_DEVICE, RESOURCE_CLAIMS, RESOURCES, ClaimConsumer, ResourceClaim

Json = dict[str, Any]


@dataclass(slots=True)
class PreparationObserver:
    """Everything that the driver reads; methods raise KubeError."""

    kube: Kube
    node_name: str
    node_uid: str
    scanner: SnapshotScanner
    thread: Executor  # single-threaded, because the scanner must be
    held: Mapping[str, HeldModel] = field(default_factory=dict, init=False)

    async def scan(self) -> Mapping[str, HeldModel]:
        """Read the disk now."""
        self.held = await asyncio.get_running_loop().run_in_executor(self.thread, self.scanner.scan)
        return self.held

    async def view(self, ref: KubeletClaim, *, with_pods: bool) -> PreparationView:
        """Return everything that the decision about a claim depends on; its pods matter only to device plugins."""
        path = f"{RESOURCES}/namespaces/{ref.namespace}/resourceclaims/{ref.name}"
        claim = await get_object(self.kube, path, ResourceClaim)
        model_node = await get_object(self.kube, f"{PATH}/{self.node_name}", ModelNode)
        return PreparationView(
            ref,
            self.node_name,
            claim,
            [pod for each in claim.pods if (pod := await self._pod(claim, each))] if claim and with_pods else [],
            entries_of(model_node, self.node_uid),
            await self._models([device.device for device in claim.models_on(self.node_name)]) if claim else {},
        )

    async def claims(self) -> list[ResourceClaim]:
        """Return the claims, of all namespaces, that hold a model on this node and are reserved for a pod."""
        found = await list_objects(self.kube, RESOURCE_CLAIMS, ResourceClaim)
        return [claim for claim in found if claim.status.reserved_for and any(claim.models_on(self.node_name))]

    async def _models(self, devices: Collection[str]) -> dict[str, HeldModel]:
        """Return the snapshots of these devices as they are now."""
        if not set(devices) <= {FETCH_DEVICE, *self.held}:
            await self.scan()  # the device was allocated after the last scan
        loop = asyncio.get_running_loop()
        known = [self.held[device] for device in dict.fromkeys(devices) if device in self.held]
        now = [await loop.run_in_executor(self.thread, self.scanner.current, model) for model in known]
        return {model.device: model for model in now if model is not None}

    async def _pod(self, claim: ResourceClaim, consumer: ClaimConsumer) -> Json | None:
        try:
            path = f"/api/v1/namespaces/{claim.metadata.namespace}/pods/{consumer.name}"
            pod = decode(await self.kube.request("GET", path), Json)
        except NotFound:
            return None
        return pod if pod["metadata"].get("uid") == consumer.uid else None


def entries_of(model_node: ModelNode | None, node_uid: str) -> dict[tuple[str, str], Entry]:
    """Return a ModelNode's entries by key; empty if it does not exist or belongs to another Node of this name."""
    if model_node is None or model_node.spec.node_uid not in ("", node_uid):
        return {}
    return {entry.key: entry for entry in model_node.spec.entries}
