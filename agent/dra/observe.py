"""Reads everything needed to prepare a claim: the claim, its pods and the ModelNode, all live, and the disk."""

import asyncio
from collections.abc import Collection, Mapping
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass, field

from agent.dra.decide import PreparationView
from agent.dra.devices import DiskSnapshot
from agent.dra.kubelet_claim import KubeletClaim
from agent.dra.snapshots import SnapshotScanner
from shared.api.model_node import PATH, Entry, ModelNode
from shared.daemon_thread import run_in_daemon_thread
from shared.dra import FETCH_DEVICE, RESOURCE_CLAIMS, ClaimConsumer, ResourceClaim, resource_claims_in
from shared.json_object import Json
from shared.kube.collection import decode, get_object, list_objects
from shared.kube.errors import NotFound
from shared.kube.transport import Kube

_METADATA_WAIT_S = 10.0  # enough for the models of most nodes, so that they are published with their metadata at once


@dataclass(slots=True)
class PreparationObserver:
    """Everything that the driver reads; methods raise KubeError."""

    kube: Kube
    node_name: str
    node_uid: str
    scanner: SnapshotScanner
    thread: Executor  # with one thread, because scans must not overlap
    held: Mapping[str, DiskSnapshot] = field(default_factory=dict, init=False)  # without their metadata
    _reading: asyncio.Task[None] | None = field(default=None, init=False)
    _checks: dict[str, asyncio.Task[DiskSnapshot | None]] = field(default_factory=dict, init=False)  # by device

    async def scan(self) -> Mapping[str, DiskSnapshot]:
        """Read the disk now, and return the snapshots with their metadata.

        If reading metadata takes long, this scan returns snapshots without it, and a later one adds it. So one model
        cannot delay the devices of others, and selectors by name always match.
        """
        held = await self._scan()
        if self._reading is None or self._reading.done():
            reading = run_in_daemon_thread(self.scanner.read_metadata, list(held.values()))
            self._reading = asyncio.create_task(reading)
        with suppress(TimeoutError):
            async with asyncio.timeout(_METADATA_WAIT_S):
                await asyncio.shield(self._reading)
        return {name: self.scanner.described(model) for name, model in held.items()}

    async def _scan(self) -> Mapping[str, DiskSnapshot]:
        self.held = await asyncio.get_running_loop().run_in_executor(self.thread, self.scanner.scan)
        return self.held

    async def view(self, ref: KubeletClaim, *, with_pods: bool) -> PreparationView:
        """Return everything that the decision about a claim depends on; pods are needed only for device plugins."""
        claim = await get_object(self.kube, f"{resource_claims_in(ref.namespace)}/{ref.name}", ResourceClaim)
        model_node = await get_object(self.kube, f"{PATH}/{self.node_name}", ModelNode)
        return PreparationView(
            ref,
            self.node_name,
            claim,
            await self._pods(claim) if claim and with_pods else [],
            entries_of(model_node, self.node_uid),
            await self._models([device.device for device in claim.models_on(self.node_name)]) if claim else {},
        )

    async def claims(self) -> list[ResourceClaim]:
        """Return the claims, of all namespaces, that hold a model on this node."""
        found = await list_objects(self.kube, RESOURCE_CLAIMS, ResourceClaim)
        return [claim for claim in found if any(claim.models_on(self.node_name))]

    async def _models(self, devices: Collection[str]) -> dict[str, DiskSnapshot]:
        """Return the current snapshots of these devices."""
        if not set(devices) <= {FETCH_DEVICE, *self.held}:
            await self._scan()  # the device was allocated after the last scan
        known = [self.held[device] for device in dict.fromkeys(devices) if device in self.held]
        now = [await self._current(model) for model in known]
        return {model.device: model for model in now if model is not None}

    async def _current(self, model: DiskSnapshot) -> DiskSnapshot | None:
        """Return a snapshot's current state, or None if it is gone. Concurrent calls for a snapshot share a thread."""
        check = self._checks.get(model.device)
        if check is None or check.done():
            check = asyncio.create_task(run_in_daemon_thread(self.scanner.current, model))
            self._checks[model.device] = check
        try:
            return await asyncio.shield(check)
        finally:
            if check.done() and self._checks.get(model.device) is check:
                del self._checks[model.device]

    async def _pods(self, claim: ResourceClaim) -> list[Json]:
        """Return the pods that a claim is reserved for. There may be 256, so they are read concurrently."""
        found = await asyncio.gather(*(self._pod(claim, each) for each in claim.pods))
        return [pod for pod in found if pod is not None]

    async def _pod(self, claim: ResourceClaim, consumer: ClaimConsumer) -> Json | None:
        try:
            path = f"/api/v1/namespaces/{claim.metadata.namespace}/pods/{consumer.name}"
            pod = decode(await self.kube.request("GET", path), Json)
        except NotFound:
            return None
        return pod if pod["metadata"].get("uid") == consumer.uid else None


def entries_of(model_node: ModelNode | None, node_uid: str) -> dict[tuple[str, str], Entry]:
    """Return a ModelNode's entries by key; empty if it does not exist or belongs to another Node of this name."""
    if model_node is None or not model_node.may_belong_to(node_uid):
        return {}
    return {entry.key: entry for entry in model_node.spec.entries}
