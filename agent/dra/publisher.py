"""Maintains this node's ResourceSlices, which kubelet deletes when it restarts, for example."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import structlog

from agent.dra.devices import ModelDevice, device_json, fetch_json
from agent.dra.slices import (
    CreateSlice,
    DeleteSlice,
    PoolOwner,
    ReplaceSlice,
    SliceAction,
    generation_of,
    plan_slices,
    published_slice,
)
from shared.dra import SLICES, slices_selector
from shared.json_object import Json
from shared.kube.collection import decode, pages, selectors
from shared.kube.edit import delete_if_present
from shared.kube.transport import Kube

_LOG: structlog.stdlib.BoundLogger = structlog.get_logger()


@dataclass(slots=True)
class SlicePublisher:
    """Writes the slices of one node; `generation` is the highest one written."""

    kube: Kube
    owner: PoolOwner
    generation: int = 0
    taints: bool = field(default=True, init=False)  # if the server drops taints, tainted devices are not listed
    _warned: bool = field(default=False, init=False)

    async def publish(self, devices: Sequence[ModelDevice]) -> bool:
        """Make the slices list these devices and the device `fetch`; return whether any slice changed.

        Raises KubeError; Conflict means that someone else wrote a slice in the meantime.
        """
        had_taints = self.taints
        query = selectors(field_selector=slices_selector(self.owner.name))
        found = [decode(raw, Json) async for page in pages(self.kube, SLICES, query) for raw in page.items]
        listed = [fetch_json(), *map(device_json, self.listed(devices))]
        actions = plan_slices(self.owner, listed, [published_slice(each) for each in found], self.generation)
        for action in actions:
            await self._apply(action)
        if actions:
            self.generation = max(self.generation, generation_of(actions))
            _LOG.info("devices_published", devices=len(listed), generation=self.generation)
        if had_taints and not self.taints:
            await self.publish(devices)
        return bool(actions)

    def listed(self, devices: Sequence[ModelDevice]) -> tuple[ModelDevice, ...]:
        """Return the devices to list: all of them, or only those without a taint if the server drops taints."""
        return tuple(device for device in devices if self.taints or not device.taint)

    async def _apply(self, action: SliceAction) -> None:
        match action:
            case CreateSlice(body):
                self._check(body, decode(await self.kube.request("POST", SLICES, body=body), Json))
            case ReplaceSlice(name, body):
                self._check(body, decode(await self.kube.request("PUT", f"{SLICES}/{name}", body=body), Json))
            case DeleteSlice(name):
                await delete_if_present(self.kube, f"{SLICES}/{name}")

    def _check(self, written: Json, kept: Json) -> None:
        """Detect fields that the API server dropped because it is too old or a feature gate is off."""
        pairs = list(zip(written["spec"]["devices"], kept["spec"].get("devices") or (), strict=False))
        if any("taints" in ours and "taints" not in theirs for ours, theirs in pairs):
            self.taints = False  # tainted devices are left out from now on
            _LOG.warning("device_taints_not_served", action="switch on the feature gate DRADeviceTaints")
        if not self._warned and any("allowMultipleAllocations" not in theirs for _, theirs in pairs):
            self._warned = True
            _LOG.warning(
                "devices_not_shared",
                message="each model on this node can be held by only one claim at a time",
                action="switch on the feature gate DRAConsumableCapacity, then restart larder-dra",
            )
