"""Decides which models and devices a claim gets on this node: pure functions of one frozen value."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from agent.dra.claim_containers import containers_of
from agent.dra.devices import DiskSnapshot
from agent.dra.errors import PrepareRefused
from agent.dra.kubelet_claim import KubeletClaim
from shared.api.model_node import Entry, EntryState
from shared.devices.annotation import ANNOTATION, InvalidDeviceInfo, parse_pod_info
from shared.devices.info import ContainerInfo, PodInfo
from shared.dra import FETCH_DEVICE, AllocatedDevice, ResourceClaim
from shared.json_object import ReadOnlyJson
from shared.names import namespace_of

_ELSEWHERE = "delete the pod, so that its replacement is scheduled to a node that has the model"


@dataclass(frozen=True, slots=True)
class PreparationView:
    """Everything that the decision about one claim depends on.

    Args:
        ref: The claim that kubelet asks the driver to prepare.
        node_name: This node.
        claim: The claim, read live; None if it does not exist.
        pods: The pods for which the claim is reserved; empty if no device plugin is called.
        entries: The entries of this node's ModelNode, read live.
        held: The snapshots on disk, by device name.
    """

    ref: KubeletClaim
    node_name: str
    claim: ResourceClaim | None
    pods: Sequence[ReadOnlyJson]
    entries: Mapping[tuple[str, str], Entry]
    held: Mapping[str, DiskSnapshot]


@dataclass(frozen=True, slots=True)
class AllocateRequest:
    """A call of `allocate` for one allocated device: the pod, and the only container that gets the device."""

    index: int
    container: str
    pod_info: PodInfo
    container_info: ContainerInfo


def held_devices(view: PreparationView) -> Sequence[AllocatedDevice]:
    """Return the devices that the claim holds here. Raises PrepareRefused."""
    if view.claim is None:
        raise PrepareRefused(f"claim {view.ref} no longer exists")
    if view.claim.metadata.uid != view.ref.uid:
        raise PrepareRefused(f"claim {view.ref} was replaced by another claim of the same name")
    found = list(view.claim.models_on(view.node_name))
    if not found:
        raise PrepareRefused(f"claim {view.ref} holds no model on node {view.node_name}")
    return found


def models_of(view: PreparationView, devices: Sequence[AllocatedDevice]) -> dict[str, DiskSnapshot]:
    """Return the snapshots of the devices, by device name. Raises PrepareRefused if the claim may not use one now."""
    names = dict.fromkeys(each.device for each in devices if each.device != FETCH_DEVICE)
    return {name: _usable(view, name) for name in names}


def _usable(view: PreparationView, device: str) -> DiskSnapshot:
    model = view.held.get(device)
    if model is None:
        raise PrepareRefused(f"device {device}: its model is no longer on node {view.node_name}; {_ELSEWHERE}")
    owner, user = namespace_of(model.id), view.ref.namespace
    if owner not in ("", user):
        raise PrepareRefused(f"model {model.id} belongs to namespace {owner}; a claim of {user} may not use it")
    entry = view.entries.get(model.key)
    if entry is None or entry.state == EntryState.ABSENT:
        raise PrepareRefused(f"model {model.id} is being removed from node {view.node_name}; {_ELSEWHERE}")
    if model.damaged:
        raise PrepareRefused(f"model {model.id} is being repaired; damaged files: {len(model.damaged)}")
    return model


def allocate_requests(view: PreparationView, devices: Sequence[AllocatedDevice]) -> Iterator[AllocateRequest]:
    """Yield the calls to device plugins: none unless the scheduler allocated devices of this node to the container.

    An admission policy ensures that only the scheduler writes `nodename` and `allocatefrom`. Raises PrepareRefused if
    an annotation is invalid, or if another container or pod would also get the devices: kubelet prepares a claim only
    once. Claims from templates and extended resources belong to one pod, and a policy keeps other pods from using them.
    """
    owner = _only_user(view.claim) if view.claim else ""
    for pod in view.pods:
        pod_info = _pod_info(pod)
        if pod_info is None or pod_info.node_name != view.node_name:
            continue
        infos = pod_info.init_containers | pod_info.running_containers
        for index, device in enumerate(devices):
            names = containers_of(pod, view.ref.name, device.request)
            users = [name for name in names if name in infos and infos[name].allocate_from]
            if users and pod["metadata"].get("uid") != owner:
                raise PrepareRefused(
                    f"container {users[0]} of pod {pod['metadata'].get('name')} got devices, but claim {view.ref} is "
                    "not that pod's own; name a template in resourceClaimTemplateName, not a claim in resourceClaimName"
                )
            if users and len(names) > 1:
                raise PrepareRefused(
                    f"container {users[0]} got devices, but shares request {device.request} of claim {view.ref} with "
                    f"{len(names) - 1} more; give each container a request of its own"
                )
            for name in users:
                yield AllocateRequest(index, name, pod_info, infos[name])


def _only_user(claim: ResourceClaim) -> str:
    """Return the uid of the pod that owns a claim if it is reserved for no other; otherwise an empty string."""
    owner = next((str(each.get("uid")) for each in claim.metadata.owner_references if each.get("controller")), "")
    return owner if all(user.uid == owner for user in claim.status.reserved_for) else ""


def _pod_info(pod: ReadOnlyJson) -> PodInfo | None:
    text = (pod["metadata"].get("annotations") or {}).get(ANNOTATION)
    if not text:
        return None
    try:
        return parse_pod_info(text)
    except InvalidDeviceInfo as error:
        raise PrepareRefused(f"annotation {ANNOTATION} of pod {pod['metadata'].get('name')}: {error}") from error
