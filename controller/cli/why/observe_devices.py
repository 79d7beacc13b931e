"""Reads a pod's device claims, the drivers' slices, and what affects devices requested by annotation."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from controller.cli.why.device_kinds import (
    DeviceSurroundings,
    ObservedDeviceClass,
    ObservedResourceClaim,
    PodClaim,
    PublishedDevices,
)
from controller.cli.why.device_request_findings import awaits_devices
from controller.cli.why.kinds import ObservedPod, Workload
from controller.cli.why.observe import listed_unless_forbidden, read_unless_forbidden
from controller.cli.why.view import DeviceScheduling
from shared.devices.scheduler import SCHEDULER_NAME
from shared.dra import DEVICE_CLASSES, DRIVER, SLICES, resource_claims_in
from shared.kube.collection import get_object, list_objects
from shared.kube.errors import NotFound, Refused
from shared.kube.objects import Object
from shared.kube.transport import Kube


@dataclass(frozen=True, slots=True)
class DeviceObserver:
    """Reads what this user may read; `larder_namespace` is where Larder runs."""

    kube: Kube
    larder_namespace: str

    async def around(self, pod: ObservedPod) -> DeviceSurroundings:
        """Read the device claims of a pod and their context; send no requests if it has none. Raises KubeError."""
        named, resources = _claims_of(pod), pod.spec.extended_resources if not pod.spec.node_name else []
        if not named and not resources:
            return DeviceSurroundings()
        try:
            return await self._read(pod.metadata.namespace, named, resources)
        except NotFound:
            return DeviceSurroundings(served=False, claims=tuple(named))

    async def scheduling(self, pod: ObservedPod) -> DeviceScheduling | None:
        """Read what affects whether a pod gets the devices that it waits for; None if it waits for none.

        Raises KubeError.
        """
        if not awaits_devices(pod):
            return None
        hidden: dict[str, Refused] = {}
        namespace = get_object(self.kube, f"/api/v1/namespaces/{pod.metadata.namespace}", Object)
        path = f"/apis/apps/v1/namespaces/{self.larder_namespace}/deployments/{SCHEDULER_NAME}"
        return DeviceScheduling(
            await read_unless_forbidden(namespace, "namespaces", hidden),
            await read_unless_forbidden(get_object(self.kube, path, Workload), "deployments", hidden),
            tuple(hidden),
        )

    async def _read(self, namespace: str, named: list[PodClaim], resources: list[str]) -> DeviceSurroundings:
        hidden: dict[str, Refused] = {}
        classes = await listed_unless_forbidden(
            list_objects(self.kube, DEVICE_CLASSES, ObservedDeviceClass), "deviceclasses", hidden
        )
        requested = [each for each in classes if each.spec.extended_resource_name in resources]
        if not named and not requested:
            return DeviceSurroundings()
        listed = await listed_unless_forbidden(
            list_objects(self.kube, resource_claims_in(namespace), ObservedResourceClaim), "resourceclaims", hidden
        )
        found = {claim.metadata.name: claim for claim in listed}
        of_driver = {"fieldSelector": f"spec.driver={DRIVER}"}
        slices = await listed_unless_forbidden(
            list_objects(self.kube, SLICES, PublishedDevices, of_driver), "resourceslices", hidden
        )
        names = frozenset(each.metadata.name for each in classes)
        return DeviceSurroundings(
            claims=(*_with_claims(named, found), *map(_of_resource, requested)),
            slices=tuple(slices),
            classes=None if "deviceclasses" in hidden else names,
            hidden=tuple(what for what in hidden if what != "deviceclasses"),
        )


def _with_claims(named: list[PodClaim], found: Mapping[str, ObservedResourceClaim]) -> Iterator[PodClaim]:
    return (PodClaim(c.name, c.template, c.claim_name, found.get(c.claim_name)) for c in named)


def _of_resource(requested: ObservedDeviceClass) -> PodClaim:
    """Return the claim that the scheduler creates for a pod when it chooses the node."""
    return PodClaim(requested.spec.extended_resource_name or "", claim=requested.as_claim())


def _claims_of(pod: ObservedPod) -> list[PodClaim]:
    made = {status.name: status.resource_claim_name or "" for status in pod.status.resource_claim_statuses}
    claims = [
        PodClaim(
            each.name, each.resource_claim_template_name or "", each.resource_claim_name or made.get(each.name, "")
        )
        for each in pod.spec.resource_claims
    ]
    extended = pod.status.extended_resource_claim_status
    if extended is not None:
        claims.append(PodClaim("extended resources", claim_name=extended.resource_claim_name))
    return claims
