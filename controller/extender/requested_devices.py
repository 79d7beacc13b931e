"""The devices that a pod requests and those allocated to it: plain functions of its annotation and its containers."""

import hashlib
from dataclasses import dataclass, replace

import msgspec

from controller.devices.topology import TOPOLOGY
from controller.devices.translation import CARDS
from controller.extender.device_objects import DevicePod
from shared.devices.annotation import ANNOTATION, InvalidDeviceInfo, parse_pod_info, parse_pod_request
from shared.devices.info import ContainerInfo, PodInfo, requests_devices


@dataclass(frozen=True, slots=True)
class RequestedDevices:
    """The devices that the containers of a pod request.

    `info` is never modified. Pods that request the same have equal `key`. With `follows_topology`, the request depends
    on the best tree of cards in the cluster.
    """

    info: PodInfo
    key: bytes
    follows_topology: bool = False

    def __bool__(self) -> bool:
        """Return whether it requests any device."""
        return bool(self.key)


def requested_devices(pod: DevicePod) -> RequestedDevices:
    """Return the devices that a pod requests: requests and scorers of its annotation, and cards of its containers.

    A sidecar is an init container to Kubernetes, but uses its devices alongside the running containers, so it counts as
    one of them. So do init containers after a sidecar that requests devices, because they run beside it. Fields that
    only a scheduler may write are ignored. Raises InvalidDeviceInfo.
    """
    text = pod.metadata.annotations.get(ANNOTATION, "")
    parse = parse_pod_info if pod.spec.node_name else parse_pod_request  # once bound, it also has the allocation
    written = parse(text) if text else PodInfo()
    info = PodInfo(
        name=pod.metadata.name,
        requests=written.requests,
        init_containers=_requested(written.init_containers),
        running_containers=_requested(written.running_containers),
        unknown=written.unknown,
    )
    for containers, listed in (
        (info.init_containers, pod.spec.init_containers),
        (info.running_containers, pod.spec.containers),
    ):
        # Init containers are known in both groups, because some move to the running ones below.
        known = {container.name for container in (*listed, *pod.spec.init_containers)}
        if missing := sorted(containers.keys() - known):
            raise InvalidDeviceInfo(f"the pod has no container {missing[0]!r}, which the annotation names")
        for container in listed:
            if extended := container.extended_resources:
                containers.setdefault(container.name, ContainerInfo()).kube_requests = extended
    beside_sidecar = False
    for container in pod.spec.init_containers:
        if container.name in info.init_containers:
            beside_sidecar |= container.is_sidecar
            if beside_sidecar:
                info.running_containers[container.name] = info.init_containers.pop(container.name)
    everything = (*info.running_containers.values(), *info.init_containers.values())
    topology = bool(info.requests.get(TOPOLOGY)) or any(each.requests.get(TOPOLOGY) for each in everything)
    return RequestedDevices(info, _key(info), topology)


def allocated_devices(pod: DevicePod) -> PodInfo | None:
    """Return a pod's allocation on its node; None if its annotation has no valid one for that node."""
    text = pod.metadata.annotations.get(ANNOTATION, "")
    if not text or not pod.holds_devices:
        return None
    try:
        info = parse_pod_info(text)
    except InvalidDeviceInfo:
        return None
    return info if info.node_name == pod.spec.node_name else None


def _requested(containers: dict[str, ContainerInfo]) -> dict[str, ContainerInfo]:
    return {
        name: ContainerInfo(requests=each.requests, scorer=each.scorer, unknown=each.unknown)
        for name, each in containers.items()
    }


def _key(info: PodInfo) -> bytes:
    """Return a digest of everything that affects where the pod fits, except its name; empty if it requests nothing.

    Plugins may translate extended resources other than cards. On their own, these do not count as requests.
    """
    everything = (*info.running_containers.values(), *info.init_containers.values())
    if not requests_devices(info) and not any(CARDS in each.kube_requests for each in everything):
        return b""
    return hashlib.sha256(msgspec.json.encode(replace(info, name=""), order="deterministic")).digest()
