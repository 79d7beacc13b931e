"""Names of models as devices of Dynamic Resource Allocation, and the claims that hold them."""

import hashlib
import re
from collections.abc import Iterator

import msgspec

from shared.api.meta import ApiStruct
from shared.kube.objects import Object
from shared.names import snapshot_label

DRIVER = "model.larder.dev"  # of the devices, of their attributes, and the class of the shared models
RESOURCES = "/apis/resource.k8s.io/v1"
SLICES = f"{RESOURCES}/resourceslices"
RESOURCE_CLAIMS = f"{RESOURCES}/resourceclaims"
DEVICE_CLASSES = f"{RESOURCES}/deviceclasses"
SHARED_CLASS = DRIVER
PRIVATE_CLASS = f"private-{DRIVER}"
FETCH_CLASS = f"fetch-{DRIVER}"
FETCH_DEVICE = "fetch"  # on every node: for pods that prefer a node with the model, but can do without
MAX_TEXT_BYTES = 64  # of an attribute
_READABLE = 42
_HASH_HEX = 16
_OTHER = re.compile(r"[^a-z0-9]+")


def device_name(identity: str, revision: str) -> str:
    """Return the name of a snapshot as a device: a label of at most 63 characters, unique by its hash."""
    readable = _OTHER.sub("-", identity.lower())[:_READABLE].strip("-")
    name = f"{readable}-{snapshot_label(identity, revision).rpartition('/')[2]}"
    return name.lstrip("-")


def resource_claims_in(namespace: str) -> str:
    """Return the API path of the ResourceClaims of a namespace."""
    return f"{RESOURCES}/namespaces/{namespace}/resourceclaims"


def slices_selector(node_name: str) -> str:
    """Return the field selector of our slices of a node."""
    return f"spec.driver={DRIVER},spec.nodeName={node_name}"


def attribute_text(text: str) -> str:
    """Return a text that fits an attribute, kept unique by a hash if it had to be cut."""
    if len(text.encode()) <= MAX_TEXT_BYTES:
        return text
    kept = text.encode()[: MAX_TEXT_BYTES - _HASH_HEX - 1].decode(errors="ignore")
    return f"{kept}-{hashlib.sha256(text.encode()).hexdigest()[:_HASH_HEX]}"


class AllocatedDevice(ApiStruct, frozen=True, kw_only=True):
    """A device that a claim holds; `request` is `main/sub` if the request has alternatives."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    share_id: str = msgspec.field(default="", name="shareID")

    @property
    def main_request(self) -> str:
        """The name of the request, without that of its alternative."""
        return self.request.partition("/")[0]


class AllocatedDevices(ApiStruct, frozen=True, kw_only=True):
    """The devices of an allocation."""

    results: list[AllocatedDevice] = []


class ResourceAllocation(ApiStruct, frozen=True, kw_only=True):
    """What was allocated to a claim."""

    devices: AllocatedDevices = AllocatedDevices()


class ClaimConsumer(ApiStruct, frozen=True, kw_only=True):
    """An object that a claim is reserved for."""

    resource: str = ""
    name: str = ""
    uid: str = ""


class ResourceClaimStatus(ApiStruct, frozen=True, kw_only=True):
    """The devices of a claim, and who may use them."""

    allocation: ResourceAllocation | None = None
    reserved_for: list[ClaimConsumer] = []


class ResourceClaim(Object, frozen=True, kw_only=True):
    """A ResourceClaim, as far as Larder reads it."""

    status: ResourceClaimStatus = ResourceClaimStatus()

    def models_on(self, node_name: str) -> Iterator[AllocatedDevice]:
        """Yield the devices of our driver that the claim holds on a node."""
        allocation = self.status.allocation
        for result in allocation.devices.results if allocation else ():
            if result.driver == DRIVER and result.pool == node_name:
                yield result

    @property
    def model_nodes(self) -> list[str]:
        """The nodes on which the claim holds devices of our driver."""
        allocation = self.status.allocation
        results = allocation.devices.results if allocation else ()
        return list(dict.fromkeys(result.pool for result in results if result.driver == DRIVER))

    @property
    def pods(self) -> list[ClaimConsumer]:
        """The pods that the claim is reserved for."""
        return [consumer for consumer in self.status.reserved_for if consumer.resource == "pods"]


class DeviceTaint(ApiStruct, frozen=True, kw_only=True):
    """Why a device should get no new claims."""

    key: str = ""


class OfferedDevice(ApiStruct, frozen=True, kw_only=True):
    """A device that a driver lists."""

    name: str = ""
    taints: list[DeviceTaint] = []


class ResourceSliceSpec(ApiStruct, frozen=True, kw_only=True):
    """The devices of a slice."""

    node_name: str = ""
    devices: list[OfferedDevice] = []


class ResourceSlice(Object, frozen=True, kw_only=True):
    """A ResourceSlice, as far as Larder reads it."""

    spec: ResourceSliceSpec = ResourceSliceSpec()
