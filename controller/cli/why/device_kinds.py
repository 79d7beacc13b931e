"""The fields of resource claims, classes and slices that a diagnosis needs."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from shared.api.meta import ApiStruct
from shared.dra import DRIVER, FETCH_CLASS, PRIVATE_CLASS, SHARED_CLASS, OfferedDevice, ResourceClaim
from shared.kube.objects import Object

OUR_CLASSES = (SHARED_CLASS, PRIVATE_CLASS, FETCH_CLASS)
_MODEL = re.compile(r"\.model\s*==\s*(?:\"([^\"]*)\"|'([^']*)')")


class CelExpression(ApiStruct, frozen=True, kw_only=True):
    """A condition on the attributes of a device."""

    expression: str = ""


class DeviceSelector(ApiStruct, frozen=True, kw_only=True):
    """A request's selection of devices."""

    cel: CelExpression = CelExpression()


class DeviceChoice(ApiStruct, frozen=True, kw_only=True):
    """One alternative of a request."""

    device_class_name: str = ""
    selectors: list[DeviceSelector] = []

    @property
    def expressions(self) -> list[str]:
        """The conditions that a device has to meet."""
        return [selector.cel.expression for selector in self.selectors]

    @property
    def model(self) -> str:
        """The only model that the conditions allow, if one of them names it literally."""
        found = (_MODEL.search(expression) for expression in self.expressions if "||" not in expression)
        return next((match[1] or match[2] or "" for match in found if match), "")


class DeviceRequest(ApiStruct, frozen=True, kw_only=True):
    """A request of a claim: a single choice, or the first available one of several."""

    name: str = ""
    exactly: DeviceChoice | None = None
    first_available: list[DeviceChoice] = []

    @property
    def choices(self) -> list[DeviceChoice]:
        """The choices, the best first."""
        return [self.exactly] if self.exactly else self.first_available


class DeviceRequests(ApiStruct, frozen=True, kw_only=True):
    """The requests of a claim."""

    requests: list[DeviceRequest] = []


class ObservedResourceClaimSpec(ApiStruct, frozen=True, kw_only=True):
    """The spec of a claim."""

    devices: DeviceRequests = DeviceRequests()


class ObservedResourceClaim(ResourceClaim, frozen=True, kw_only=True):
    """A ResourceClaim with its requests."""

    spec: ObservedResourceClaimSpec = ObservedResourceClaimSpec()

    @property
    def choices(self) -> Iterator[DeviceChoice]:
        """Every choice of every request."""
        return (choice for request in self.spec.devices.requests for choice in request.choices)

    @property
    def is_for_models(self) -> bool:
        """Whether a request uses our classes or attributes, or the claim holds a model."""
        named = any(c.device_class_name in OUR_CLASSES or DRIVER in "".join(c.expressions) for c in self.choices)
        return named or bool(self.model_nodes)


class ObservedDeviceClassSpec(ApiStruct, frozen=True, kw_only=True):
    """The devices of a class, and the extended resource by which containers may request one."""

    selectors: list[DeviceSelector] = []
    extended_resource_name: str | None = None


class ObservedDeviceClass(Object, frozen=True, kw_only=True):
    """A DeviceClass."""

    spec: ObservedDeviceClassSpec = ObservedDeviceClassSpec()

    def as_claim(self) -> ObservedResourceClaim:
        """Return the claim that the scheduler creates for a container that requests the extended resource."""
        choice = DeviceChoice(device_class_name=self.metadata.name, selectors=self.spec.selectors)
        request = DeviceRequest(name=self.metadata.name, exactly=choice)
        spec = ObservedResourceClaimSpec(devices=DeviceRequests(requests=[request]))
        return ObservedResourceClaim(metadata=self.metadata, spec=spec)


class ObservedAttribute(ApiStruct, frozen=True, kw_only=True):
    """The value of an attribute, if it is a string."""

    string: str = ""


class PublishedDevice(OfferedDevice, frozen=True, kw_only=True):
    """A device with its attributes."""

    attributes: dict[str, ObservedAttribute] = {}


class PublishedSliceSpec(ApiStruct, frozen=True, kw_only=True):
    """The devices of a node, or some of them."""

    node_name: str = ""
    devices: list[PublishedDevice] = []


class PublishedDevices(Object, frozen=True, kw_only=True):
    """A ResourceSlice."""

    spec: PublishedSliceSpec = PublishedSliceSpec()


@dataclass(frozen=True, slots=True)
class PodClaim:
    """A pod's claim: its name in the pod, the name of its template if any, and the claim itself once it exists."""

    name: str
    template: str = ""
    claim_name: str = ""
    claim: ObservedResourceClaim | None = None


@dataclass(frozen=True, slots=True)
class DeviceSurroundings:
    """Everything read for a pod that claims devices.

    Args:
        served: Whether the API server has ResourceClaims.
        claims: The pod's claims.
        slices: The slices of our driver, on all nodes.
        classes: The names of the device classes; None if this user may not list them.
        hidden: Other kinds that this user may not read.
    """

    served: bool = True
    claims: tuple[PodClaim, ...] = ()
    slices: tuple[PublishedDevices, ...] = ()
    classes: frozenset[str] | None = None
    hidden: tuple[str, ...] = ()
